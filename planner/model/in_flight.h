// Micro-batches that a device keeps under interleaved 1F1B.

#ifndef PARPLAN_PLANNER_MODEL_IN_FLIGHT_H_
#define PARPLAN_PLANNER_MODEL_IN_FLIGHT_H_

#include <cstdint>

#include "absl/types/span.h"
#include "planner/base/units.h"

namespace parplan {

// A device of an interleaved pipeline. Its chunks are its virtual stages in the order
// of the model: chunk c is virtual stage c * P + device_index.
struct InterleavedDevice {
  int pipeline_parallel_degree = 1;
  int virtual_stage_count = 1;
  int device_index = 0;
  int64_t micro_batch_count = 1;
};

// Micro-batches of which the device has done the forward and not yet the backward
// pass of chunk `chunk_index`, right after its `forward_count`-th forward pass, from
// the order of passes (planner/cost/pipeline_schedule.h). Where the last group of
// micro-batches isn't full, `forward_count` counts the missing ones too. O(1).
int64_t InFlightAfter(const InterleavedDevice& device, int chunk_index, int64_t forward_count);

// The most bytes the device keeps of all chunks together, at `kept[c]` bytes of a
// micro-batch in chunk c; in `counts`, where that isn't empty, what it has in flight
// of each chunk at that moment. Exact; chunks have their own peaks at different
// moments, so the counts are less than those peaks together: with equal chunks
// device 0 keeps 1 + (P - 1) / (P V) of what all its layers keep of P micro-batches
// (Narayanan et al., SC'21, 2.2; Korthikanti et al., 4.2.3). With P = 1 one
// micro-batch. O(V^2).
//
//   kept, counts   [chunk], V of them
Bytes InFlightPeak(const InterleavedDevice& device, absl::Span<const Bytes> kept,
                   absl::Span<int64_t> counts);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_IN_FLIGHT_H_
