// The stopwatch of everything that is measured on a device, by the agent as by the executor.

#ifndef PARPLAN_EXECUTOR_DEVICE_BACKEND_STOPWATCH_H_
#define PARPLAN_EXECUTOR_DEVICE_BACKEND_STOPWATCH_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace parplan {

// Measures how long the device is at what it is given between `Start` and `Stop`. On a GPU
// both are marks in the order of its work (events), so nothing waits for them; on the
// processor they read the steady clock. Of one thread, that of the device.
class Stopwatch {
 public:
  virtual ~Stopwatch() = default;
  virtual void Start() = 0;
  virtual void Stop() = 0;
  // Between the last `Start` and `Stop`; waits until the device has come to the latter.
  // REQUIRES: both were called.
  virtual absl::StatusOr<absl::Duration> Elapsed() = 0;
};

// By the steady clock.
std::unique_ptr<Stopwatch> MakeCpuStopwatch();

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_BACKEND_STOPWATCH_H_
