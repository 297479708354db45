// Ways to cut the layers of a model into pipeline stages.
//
// A partition is the number of layers of each stage, all at least 1. None of
// them depends on the memory of a device, but for `MemoryLimitedSplit`.
//
// Galvatron-BMW (papers.md 2.4) balances memory by a greedy fill with fudge
// factors; here the largest stage is the smallest possible. Where that leaves
// freedom, the partition stays as close as it may to another one.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_STAGE_BALANCE_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_STAGE_BALANCE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "base/units.h"

namespace parplan {

using Partition = std::vector<int>;

// Equal numbers of transformer layers; other layers go with the transformer
// layer they precede, or the last one. What is left over goes one each to the
// stages before the last, from behind: later stages keep fewer micro-batches,
// and the last has the head. With fewer transformer layers
// than stages all layers count alike.
//
//   is_transformer   [layer]
//
// REQUIRES 1 <= stage_count <= layers.
Partition EvenSplit(absl::Span<const char> is_transformer, int stage_count);

// The slowest stage is as fast as possible, and boundaries are as close to
// those of `preferred` as that allows.
//
//   layer_times   [layer], finite
Partition TimeBalancedSplit(absl::Span<const Seconds> layer_times, const Partition& preferred);

// What a layer holds at the least, in a stage where no layer may use more than
// a given transient memory. Never more in a later stage than in an earlier one.
struct LeastMemory {
  // Values the cap on transient memory may have, ascending.
  std::vector<Bytes> caps;
  // [stage][kind][cap]; `Bytes::Max()` where no strategy stays below the cap.
  std::vector<std::vector<std::vector<Bytes>>> kept;
};

struct MemoryBalancedPartition {
  Partition layer_counts;
  // What the fullest stage holds at the least.
  Bytes largest_stage;
};

// The least memory of the fullest stage is as small as possible: exactly, under
// the micro-batches in flight that `memory` was made for. Boundaries are as
// close to those of `preferred` as that allows. Nothing where some layer has no
// strategy.
//
//   kind_of_layer   [layer]
std::optional<MemoryBalancedPartition> MemoryBalancedSplit(absl::Span<const int> kind_of_layer,
                                                           const LeastMemory& memory,
                                                           const Partition& preferred);

// No stage holds more than `limit` at the least, and boundaries are as close to
// those of `preferred` as that allows. Nothing where there is no such partition.
std::optional<Partition> MemoryLimitedSplit(absl::Span<const int> kind_of_layer,
                                            const LeastMemory& memory, Bytes limit,
                                            const Partition& preferred);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_STAGE_BALANCE_H_
