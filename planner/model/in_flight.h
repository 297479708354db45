// Micro-batches that a device keeps under interleaved 1F1B.

#ifndef PARPLAN_PLANNER_MODEL_IN_FLIGHT_H_
#define PARPLAN_PLANNER_MODEL_IN_FLIGHT_H_

#include <cstdint>

#include "absl/types/span.h"
#include "base/units.h"

namespace parplan {

// A device of an interleaved pipeline. Its chunks are its virtual stages in the order
// of the model: chunk c is virtual stage c * P + device_index. The order of passes is
// that of planner/cost/pipeline_schedule.h; with one chunk it is plain 1F1B.
struct InterleavedDevice {
  int pipeline_parallel_degree = 1;
  int virtual_stage_count = 1;
  int device_index = 0;
  int64_t micro_batch_count = 1;
};

// What the device needs at its worst moment. Moments are those right before a backward
// pass, since only forward passes add.
struct InFlightMoment {
  // Kept for passes in flight at that moment, that before whose backward pass it is
  // included, and the extra of its chunk.
  Bytes needed;
  // Of these, what is kept.
  Bytes kept;
  // Which chunk's backward pass comes next.
  int chunk_index = 0;
  // The most that is kept at any moment, whatever the extra.
  Bytes most_kept;
};

// The moment at which the device needs most: at `kept[c]` bytes of a micro-batch in
// chunk c, and `extra[c]`, which may be negative, while a backward pass of chunk c runs.
// In `counts`, where that isn't empty, what it has in flight of each chunk then. Of equal
// moments the first. Exact; with P = 1 one micro-batch, and the chunks behind are
// freed. O(V), allocates nothing.
//
//   kept, extra, counts   [chunk], V of them
InFlightMoment WorstMoment(const InterleavedDevice& device, absl::Span<const Bytes> kept,
                           absl::Span<const Bytes> extra, absl::Span<int64_t> counts);

// The most bytes the device keeps of all chunks together, and `counts` at that moment.
// Chunks have their own peaks at different moments, so the counts are less than those
// peaks together: with equal chunks device 0 keeps 1 + (P - 1) / (P V) of what all its
// layers keep of P micro-batches (Narayanan et al., SC'21, 2.2; Korthikanti et al.,
// 4.2.3). O(V).
//
//   kept, counts   [chunk], V of them
Bytes InFlightPeak(const InterleavedDevice& device, absl::Span<const Bytes> kept,
                   absl::Span<int64_t> counts);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_IN_FLIGHT_H_
