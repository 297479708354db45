// The two clocks of a program. Two, because they answer two questions: what time is it (written
// into plans, compared with expiries; jumps when an operator or NTP sets it), and how long did it
// take (deadlines and durations; never jumps).

#ifndef PARPLAN_BASE_SYSTEM_CLOCK_H_
#define PARPLAN_BASE_SYSTEM_CLOCK_H_

#include "absl/time/time.h"

namespace parplan {

// Interface to the clocks, so that tests can set them. Safe to use from any thread.
class Clock {
 public:
  virtual ~Clock() = default;

  // Returns the time of day, UTC. May jump in either direction.
  virtual absl::Time Now() const = 0;

  // Returns the time since a fixed moment of this process. Never decreases.
  virtual absl::Duration Steady() const = 0;

  // Returns the clocks of the machine. They live as long as the process.
  static const Clock& Real();
};

}  // namespace parplan

#endif  // PARPLAN_BASE_SYSTEM_CLOCK_H_
