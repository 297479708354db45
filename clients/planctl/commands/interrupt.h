// Handles Ctrl-C during a search: the first one ends it with the best plan so far. `planctl plan`,
// `compare` and `explain` have one while they search.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_INTERRUPT_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_INTERRUPT_H_

#include <signal.h>

namespace parplan::planctl {

// While an InterruptWatch exists, the first SIGINT is only remembered; the second ends the program
// as usual. REQUIRES, unchecked: at most one exists at a time.
class InterruptWatch {
 public:
  // Makes `interrupted` false until the next SIGINT.
  InterruptWatch();
  // Restores the handler of before; `interrupted` keeps its value.
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // Returns whether a SIGINT has come while the latest watch existed; false if there was none. Safe
  // to call from any thread.
  static bool interrupted();

 private:
  struct sigaction before_;
};

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_INTERRUPT_H_
