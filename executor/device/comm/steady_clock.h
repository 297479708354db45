// The steady clock of the executor and of the probe of layers, with which deadlines and durations
// are measured; it never goes back.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_STEADY_CLOCK_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_STEADY_CLOCK_H_

#include <time.h>

#include "absl/time/time.h"

namespace parplan {

// Returns the time since a fixed moment in the past, the same for all processes of a machine.
inline absl::Duration SteadyNow() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::DurationFromTimespec(now);
}

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_STEADY_CLOCK_H_
