// Ctrl-C during a search: the first ends it with the best plan so far.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_INTERRUPT_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_INTERRUPT_H_

#include <signal.h>

namespace parplan::planctl {

// While there is one, the first SIGINT is remembered and does nothing else; the second
// ends the program as usual. One at a time.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // Safe to ask from any thread.
  static bool interrupted();

 private:
  struct sigaction before_;
};

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_INTERRUPT_H_
