// What one device does besides collectives: how it computes while it communicates, and how fast
// it copies.

#ifndef PARPLAN_PROFILER_AGENT_PROBE_DEVICE_PROBE_H_
#define PARPLAN_PROFILER_AGENT_PROBE_DEVICE_PROBE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/units.h"
#include "executor/device/backend/device_backend.h"
#include "executor/device/comm/communicator.h"
#include "executor/device/kernels/layer_kernels.h"

namespace parplan {

// Medians at the slowest rank.
struct OverlapTimes {
  // Matrix products and an all-reduce, each alone; made to take about as long.
  absl::Duration compute;
  absl::Duration communication;
  // Both at once, until both have ended.
  absl::Duration together;
  // The products while communication goes on all the time, and the other way round.
  absl::Duration compute_beside;
  absl::Duration communication_beside;

  double compute_slowdown() const { return absl::FDivDuration(compute_beside, compute); }
  double communication_slowdown() const {
    return absl::FDivDuration(communication_beside, communication);
  }
  // k of `max(a, b) + (k - 1) min(a, b)`, by which planners predict what takes a and b alone;
  // at least 1.
  double slowdown() const;
};

// All ranks call it. `group` is over all ranks and the device's memory, `control` over all
// ranks and the host's.
absl::StatusOr<OverlapTimes> MeasureOverlap(Device& device, LayerKernels& kernels,
                                            Communicator& group, Communicator& control,
                                            int repetition_count);

struct CopySpeeds {
  // Bytes moved (read and written once) in a second, medians.
  double within_device = 0.0;
  double to_device = 0.0;
  double from_device = 0.0;
};

absl::StatusOr<CopySpeeds> MeasureCopies(Device& device, LayerKernels& kernels,
                                         int repetition_count);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PROBE_DEVICE_PROBE_H_
