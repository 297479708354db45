#include "clients/planctl/commands/interrupt.h"

#include <atomic>

namespace parplan::planctl {
namespace {

std::atomic<bool> interrupt_seen = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void RememberInterrupt(int) { interrupt_seen = true; }

}  // namespace

InterruptWatch::InterruptWatch() {
  interrupt_seen = false;
  struct sigaction action = {};
  action.sa_handler = &RememberInterrupt;
  // The next one does what it did before any watch: it ends the program.
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &before_);
}

InterruptWatch::~InterruptWatch() { sigaction(SIGINT, &before_, nullptr); }

bool InterruptWatch::interrupted() { return interrupt_seen; }

}  // namespace parplan::planctl
