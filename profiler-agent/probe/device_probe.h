// Measures one device beyond its collectives: how computing and communicating slow each other down,
// and how fast it copies. Called by `RunProbe`.

#ifndef PARPLAN_PROFILER_AGENT_PROBE_DEVICE_PROBE_H_
#define PARPLAN_PROFILER_AGENT_PROBE_DEVICE_PROBE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/units.h"
#include "executor/device/backend/device_backend.h"
#include "executor/device/comm/communicator.h"
#include "executor/device/kernels/layer_kernels.h"

namespace parplan {

// Medians of times, each at the slowest rank.
struct OverlapTimes {
  // Matrix products and an all-reduce, each alone. The number of products is chosen so that both
  // take about as long.
  absl::Duration compute;
  absl::Duration communication;
  // Both at once, until both have ended.
  absl::Duration together;
  // The products during continuous communication, and the all-reduce during continuous products.
  absl::Duration compute_beside;
  absl::Duration communication_beside;

  // Return how many times longer the products and the all-reduce take beside the other: 1 for no
  // effect.
  double compute_slowdown() const { return absl::FDivDuration(compute_beside, compute); }
  double communication_slowdown() const {
    return absl::FDivDuration(communication_beside, communication);
  }
  // Returns the k, at least 1, for which `max(a, b) + (k - 1) min(a, b)` is the measured time of
  // both together. Planners predict with it the time of work that takes a and b alone.
  double slowdown() const;
};

// Work that is measured alone and together.
struct OverlapSizes {
  // Rows and columns of the matrices of a product.
  int64_t side = 0;
  Bytes reduced;
};

// Returns sizes that fill a device of the back end `cpu`, or a GPU otherwise: 384 x 384 and 8 MiB,
// or 4096 x 4096 and 256 MiB. Less than that leaves multiprocessors of a GPU idle, or is over
// before both overlap, so that nothing would seem to slow anything down.
OverlapSizes OverlapSizesOf(bool is_cpu);

// Measures overlap with products of square matrices and an all-reduce, both of the kernels' type;
// all ranks get the same times. Collective: all ranks call it. `group` joins all ranks in device
// memory, `control` in host memory. Each time is the median of `repetition_count` (at least 1,
// which is not checked here and below) after a warm-up. Returns the errors of communicators
// (PendingWork::Wait), and RESOURCE_EXHAUSTED if the device has no memory for it.
absl::StatusOr<OverlapTimes> MeasureOverlap(Device& device, LayerKernels& kernels,
                                            Communicator& group, Communicator& control,
                                            const OverlapSizes& sizes, int repetition_count);

// Multiplies matrices of `side` rows and columns, of data, for at least `duration`, and waits for
// the products: a GPU then has the clock of long work, not of a burst. Not collective. Returns
// errors of the device (Device::Synchronize), and RESOURCE_EXHAUSTED if it has no memory for it.
absl::Status LoadDevice(Device& device, LayerKernels& kernels, int64_t side,
                        absl::Duration duration);

// How fast one device copies.
struct CopySpeeds {
  // Median speeds in bytes per second; each byte is read once and written once.
  double within_device = 0.0;
  double to_device = 0.0;
  double from_device = 0.0;
};

// Measures copies of 64 MiB by this rank alone, `repetition_count` (at least 1) of each after a
// warm-up. Not collective. Returns the errors of the device (Device::CopyToHost, Synchronize), and
// RESOURCE_EXHAUSTED if it has no memory for it.
absl::StatusOr<CopySpeeds> MeasureCopies(Device& device, LayerKernels& kernels,
                                         int repetition_count);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PROBE_DEVICE_PROBE_H_
