// Micro-batches that a device has in flight under interleaved 1F1B. `MemoryOfRank`
// (planner/cost/rank_memory.h) and the search of interleaved plans count by it.

#ifndef PARPLAN_PLANNER_MODEL_IN_FLIGHT_H_
#define PARPLAN_PLANNER_MODEL_IN_FLIGHT_H_

#include <cstdint>

#include "absl/types/span.h"
#include "base/units.h"

namespace parplan {

// A device of an interleaved pipeline. Its chunks are its virtual stages in the order of the model:
// chunk c is virtual stage c * P + device_index. planner/model/pass_order.h has the order of
// passes; with one chunk it is plain 1F1B.
struct InterleavedDevice {
  // P, the devices of the pipeline, and V, the virtual stages on each.
  int pipeline_parallel_degree = 1;
  int virtual_stage_count = 1;
  int device_index = 0;
  int64_t micro_batch_count = 1;
  // See `Plan::micro_batch_group_size`.
  int64_t micro_batch_group_size = 0;
};

// The moment at which a device needs most. Only moments right before a backward pass count, since
// only forward passes add.
struct InFlightMoment {
  // Bytes kept for all passes in flight, the one whose backward pass comes next included, and the
  // extra of its chunk.
  Bytes needed;
  // The part of `needed` that is kept.
  Bytes kept;
  // The chunk whose backward pass comes next.
  int chunk_index = 0;
  // The most bytes kept at any moment, without extras.
  Bytes most_kept;
};

// Returns the moment at which the device needs most, the first of equal ones. A micro-batch keeps
// `kept[c]` bytes in chunk c, and a backward pass of chunk c needs `extra[c]` more, which may be
// negative; an empty `extra` is one of zeros. `counts`, unless empty, receives the number of
// micro-batches that each chunk has in flight at that moment. The result is exact. With P = 1 there
// is one micro-batch, and the chunks after the one that runs are freed. O(V), allocates nothing.
// Aborts for a device that `PassOrder` (pass_order.h) refuses, if P is above 1.
//
//   kept, extra, counts   [chunk], V of them, which is not checked; the last two may be empty
InFlightMoment WorstMoment(const InterleavedDevice& device, absl::Span<const Bytes> kept,
                           absl::Span<const Bytes> extra, absl::Span<int64_t> counts);

// Returns the most bytes the device keeps of all chunks together, and sets `counts`, unless empty,
// at that moment. Chunks peak at different moments, so this is at most the sum of their peaks: with
// equal chunks device 0 keeps 1 + (P - 1) / (P V) times what all its layers keep of P micro-batches
// (Narayanan et al., SC'21, 2.2; Korthikanti et al., 4.2.3). O(V).
//
//   kept, counts   [chunk], V of them
Bytes InFlightPeak(const InterleavedDevice& device, absl::Span<const Bytes> kept,
                   absl::Span<int64_t> counts);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_IN_FLIGHT_H_
