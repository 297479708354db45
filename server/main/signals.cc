#include "server/main/signals.h"

#include <pthread.h>
#include <unistd.h>

namespace parplan {

Signals::Signals() {
  sigemptyset(&set_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set_, signal);
  pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(
      SIGXFSZ,
      SIG_IGN);  // A write beyond the limit on file sizes then fails, and the store reports it.
}

int Signals::Next(absl::Duration timeout) const {
  const timespec limit = absl::ToTimespec(timeout);
  const int signal = sigtimedwait(&set_, nullptr, &limit);
  return signal > 0 ? signal : 0;
}

void Signals::EndAtOnceOnNext() const {
  sigset_t ending;
  sigemptyset(&ending);
  for (const int signal : {SIGINT, SIGTERM}) {
    std::signal(signal, [](int received) { _exit(128 + received); });
    sigaddset(&ending, signal);
  }
  pthread_sigmask(SIG_UNBLOCK, &ending, nullptr);
}

}  // namespace parplan
