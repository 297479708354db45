// The signals a server is told things by.

#ifndef PARPLAN_SERVER_MAIN_SIGNALS_H_
#define PARPLAN_SERVER_MAIN_SIGNALS_H_

#include <csignal>

#include "absl/time/time.h"

namespace parplan {

// Makes SIGINT, SIGTERM and SIGHUP wait to be asked for, in this thread and in
// those it starts from now on; so it comes before any thread. SIGPIPE is ignored.
class Signals {
 public:
  Signals();

  // The next signal; 0 when none comes within `timeout`.
  int Next(absl::Duration timeout) const;

  // From now on the next SIGINT or SIGTERM ends the process at once, with 128 more
  // than its number as exit code.
  void EndAtOnceOnNext() const;

 private:
  sigset_t set_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_MAIN_SIGNALS_H_
