// Partitions of a model's layers into pipeline stages.
//
// A partition is the number of layers of each stage, all at least 1. Only `MemoryLimitedSplit`
// depends on the memory of a device.
//
// Galvatron's public code balances memory by a greedy fill with correction factors (docs/papers.md
// 2.4); here the largest stage is the smallest possible. Among the partitions that achieve it, the
// one closest to a preferred partition is taken. Used by the baselines, the Galvatron planners and
// studies of the papers.
//
// Words (docs/glossary.md): micro-batches in flight have done their forward pass and not yet their
// backward pass.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_STAGE_BALANCE_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_STAGE_BALANCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "base/units.h"

namespace parplan {

using Partition = std::vector<int>;

// Splits by equal numbers of transformer layers. Other layers go with the transformer layer they
// precede, or with the last one. If the number does not divide, the stages before the last get one
// more layer each, counted from the end: later stages keep fewer micro-batches, and the last has
// the head. With fewer transformer layers than stages, all layers count alike.
//
//   is_transformer   [layer]
//
// REQUIRES: 1 <= stage_count <= layers; aborts otherwise.
Partition EvenSplit(absl::Span<const char> is_transformer, int stage_count);

// Makes the slowest stage as fast as possible, with boundaries as close to those of `preferred` as
// that allows.
//
//   layer_times   [layer], finite and not negative
//
// REQUIRES, as all functions below: the argument `preferred` or `partition` is a partition of all
// layers. Nothing checks it.
Partition TimeBalancedSplit(absl::Span<const Seconds> layer_times, const Partition& preferred);

// The least bytes a layer holds in a stage where no layer exceeds a given transient memory.
// REQUIRES, unchecked: a layer in a later stage never holds more than in an earlier one.
struct LeastMemory {
  // Bytes, [kind of layer][cap]; `Bytes::Max()` if all strategies exceed the cap.
  using OfStage = std::vector<std::vector<Bytes>>;

  // Values the cap on transient memory may have, ascending. A stage needs its cap in addition to
  // what its layers hold.
  std::vector<Bytes> caps;
  // [stage] one for each stage of the partition, never null. Stages with as many micro-batches in
  // flight share one: hundreds of copies for thousands of unlike layers would be gigabytes.
  std::vector<std::shared_ptr<const OfStage>> kept;
};

// Returns the least bytes of the fullest stage of a partition; `Bytes::Max()` if in some
// stage no cap leaves every layer a strategy. O(layers * caps).
Bytes LeastMemoryOf(absl::Span<const int> kind_of_layer, const LeastMemory& memory,
                    const Partition& partition);

// A partition and the memory it needs.
struct MemoryBalancedPartition {
  Partition layer_counts;
  // The least bytes the fullest stage needs.
  Bytes largest_stage;
};

// Makes the least memory of the fullest stage as small as possible: exactly, under the
// micro-batches in flight that `memory` was computed for. Boundaries are as close to those of
// `preferred` as that allows. Returns nothing if no partition has a strategy for every layer, or
// once `work` (`SearchMeter::Worker`), if it is not empty, returns false: each of some forty
// halvings takes O(layers * caps).
//
//   kind_of_layer   [layer]
std::optional<MemoryBalancedPartition> MemoryBalancedSplit(
    absl::Span<const int> kind_of_layer, const LeastMemory& memory, const Partition& preferred,
    const std::function<bool(int64_t)>& work = nullptr);

// Returns the partition closest to `preferred`, boundary by boundary from the first stage, in which
// the least memory of no stage exceeds `limit`; nothing if there is none.
std::optional<Partition> MemoryLimitedSplit(absl::Span<const int> kind_of_layer,
                                            const LeastMemory& memory, Bytes limit,
                                            const Partition& preferred);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_STAGE_BALANCE_H_
