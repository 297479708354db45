// The two clocks of a program. One says what time it is: it is written into plans and compared with
// expiries, and jumps when an operator or NTP sets it. The other says how long something took: it
// is for deadlines and durations, and never jumps. `ServerCore` and its parts, the calls and the
// audit log of the server, and the searches of solve/ (`RunSearch`, `SharedTime`) take a `Clock`.
// Other code, the executor, the profiler agent and the stores of the server among it, reads the
// machine's clocks itself, by `absl::Now`, `SteadyNow` (steady_clock.h) or `std::chrono`.

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

  // Returns the time since a moment that stays the same while this process runs, so that only
  // differences within one process mean anything. Never decreases.
  virtual absl::Duration Steady() const = 0;

  // Returns the clocks of the machine. They live as long as the process.
  static const Clock& Real();
};

}  // namespace parplan

#endif  // PARPLAN_BASE_SYSTEM_CLOCK_H_
