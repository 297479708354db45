// The partitions of interleaved pipelines (docs/search.md). Used by the searches of this folder, by
// `SearchBlocks` and by `FindSmallestMemory`.
//
// Words (docs/glossary.md): a candidate is all plans of one batch size, pipeline degree, number of
// micro-batches and schedule; virtual stages are the several stages of one device; a partition is
// the number of layers of each stage.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_PARTITIONS_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_PARTITIONS_H_

#include <cstdint>
#include <vector>

#include "planner/search/space/strategy_space.h"

namespace parplan {

// One partition into virtual stages.
struct InterleavedPartition {
  // Virtual stages per device.
  int virtual_stage_count = 2;
  // Layers of each virtual stage, in the order of the model, at least one. Virtual stage i is on
  // device i modulo the pipeline degree.
  std::vector<int> layer_counts;
};

// The partitions of one pipeline degree.
struct InterleavedPartitions {
  // By ascending number of virtual stages per device, at least 2: with `uneven-stages` all
  // partitions of a number that has at most 64, else the even ones, in which embedding and head
  // count as a layer or (always without `uneven-stages`) as none.
  std::vector<InterleavedPartition> listed;
  // The numbers of virtual stages per device that have more partitions, ascending. All numbers in
  // between have more too. Their even partitions, at most four of a number, are in `listed`. Empty
  // without `uneven-stages`.
  std::vector<int> unlisted;

  // Returns whether there is no partition at all.
  bool empty() const { return listed.empty() && unlisted.empty(); }
};

// Returns the partitions of the space, with at most `TargetLimits::most_virtual_stages` virtual
// stages a device. Empty if the space has no interleaved plans of the degree: it is 1, or the rules
// want another schedule, or the dimension `interleaved` is missing. The limit of passes is not
// asked: see `FitsPassLimit`.
InterleavedPartitions InterleavedPartitionsOf(const StrategySpace& space,
                                              int pipeline_parallel_degree);

// Returns `InterleavedPartitionsOf(...).unlisted` without listing the others.
std::vector<int> UnlistedVirtualStageCounts(const StrategySpace& space,
                                            int pipeline_parallel_degree);

// Returns whether plans of partitions that are not listed are searched apart from all others, at
// the end of a search: where layers have strategies of their own, such plans are hardly ever the
// fastest, and their weak bounds would keep candidates open. Where all layers have one strategy
// they are searched with the others of a candidate.
bool SearchesUnevenApart(const StrategySpace& space);

// Returns the partitions that are searched with the others of a candidate: those of
// `InterleavedPartitionsOf`, without `unlisted` if the space searches these apart.
InterleavedPartitions SearchedPartitionsOf(const StrategySpace& space,
                                           int pipeline_parallel_degree);

// Returns whether a step of so many micro-batches through so many stages, those of all devices
// together, has at most `kMaxForwardPassCount` forward passes (plan.h), as plans must. REQUIRES,
// unchecked: `stage_count` is above 0.
bool FitsPassLimit(int64_t micro_batch_count, int stage_count);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_PARTITIONS_H_
