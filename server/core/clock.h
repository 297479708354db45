// Where the server gets its time from. Two clocks, because they answer two
// questions: what time is it (written into plans, compared with expiries; may
// jump either way when somebody sets it), and how long did it take (deadlines
// and durations; never jumps).

#ifndef PARPLAN_SERVER_CORE_CLOCK_H_
#define PARPLAN_SERVER_CORE_CLOCK_H_

#include "absl/time/time.h"

namespace parplan {

// Safe to use from any thread. Tests hold one they can set.
class Clock {
 public:
  virtual ~Clock() = default;

  // Time of day, UTC. May jump.
  virtual absl::Time Now() const = 0;

  // Time since some fixed moment of this process. Never goes back.
  virtual absl::Duration Steady() const = 0;

  // The clocks of the machine. Lives as long as the process.
  static const Clock& Real();
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_CLOCK_H_
