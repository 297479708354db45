// The steady clock of the machine, which never goes back: for deadlines, pauses and durations. The
// time of day (`absl::Now`) jumps when an operator or NTP sets it, so that whoever waits until a
// time of day may wait for a year, or not at all. Code whose tests set the time takes a `Clock`
// (clock.h).

#ifndef PARPLAN_BASE_SYSTEM_STEADY_CLOCK_H_
#define PARPLAN_BASE_SYSTEM_STEADY_CLOCK_H_

#include <time.h>

#include "absl/time/time.h"

namespace parplan {

// Returns the time since a fixed moment in the past, the same for all processes of a machine. Safe
// from any thread.
inline absl::Duration SteadyNow() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::DurationFromTimespec(now);
}

}  // namespace parplan

#endif  // PARPLAN_BASE_SYSTEM_STEADY_CLOCK_H_
