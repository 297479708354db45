// The signals of an operator to a server. main.cc waits for them.

#ifndef PARPLAN_SERVER_MAIN_SIGNALS_H_
#define PARPLAN_SERVER_MAIN_SIGNALS_H_

#include <csignal>

#include "absl/time/time.h"

namespace parplan {

// Blocks SIGINT, SIGTERM and SIGHUP in this thread and in those it starts from now on, for `Next`
// to receive; so it must be created before any thread, and they stay blocked when it is destroyed.
// Ignores SIGPIPE, and SIGXFSZ, so that a write beyond the limit on file sizes fails instead.
class Signals {
 public:
  Signals();

  // Waits for the next signal and returns it; 0 if none comes within `timeout` or the wait is
  // interrupted.
  int Next(absl::Duration timeout) const;

  // Lets the next SIGINT or SIGTERM, one that waits included, end the process at once, with its
  // number plus 128 as exit code; SIGHUP does nothing from then on. Needs no thread: the two are
  // unblocked in this one, which must go on, and in those that it starts from now on. REQUIRES,
  // unchecked: `Next` is not called any more.
  void EndAtOnceOnNext() const;

 private:
  sigset_t set_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_MAIN_SIGNALS_H_
