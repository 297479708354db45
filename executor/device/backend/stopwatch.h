// A stopwatch for work on a device, made by it (`Device::MakeStopwatch`). The agent's probes of
// collectives, overlap and copies use it; that of layers reads a clock (PhaseRecorder).

#ifndef PARPLAN_EXECUTOR_DEVICE_BACKEND_STOPWATCH_H_
#define PARPLAN_EXECUTOR_DEVICE_BACKEND_STOPWATCH_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace parplan {

// Measures how long the device takes for the work between `Start` and `Stop`. On a GPU both are
// events in its stream of computations, so nothing waits for them, and collectives count only as
// far as that stream waits for them (`PendingWork::Wait`). On the processor they read the steady
// clock, so all counts that the thread does or waits for. The device outlives its
// stopwatches. Used by the thread of the device.
class Stopwatch {
 public:
  virtual ~Stopwatch() = default;
  // Begin and end the measured time, at this place in the order of the device's work. Neither
  // waits. A second pair replaces the first.
  virtual void Start() = 0;
  virtual void Stop() = 0;
  // Returns the time between the last `Start` and `Stop`; waits until the device has reached the
  // latter. REQUIRES, unchecked: both were called. On a GPU INTERNAL if it reports an error, and
  // RESOURCE_EXHAUSTED if it had no memory for the events; no error on the processor.
  virtual absl::StatusOr<absl::Duration> Elapsed() = 0;
};

// Makes a stopwatch that reads the steady clock; never null.
std::unique_ptr<Stopwatch> MakeCpuStopwatch();

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_BACKEND_STOPWATCH_H_
