// Partitions of one interleaved plan's layers: first ones, their simulation, and moves of a layer.
// Used by `SearchUneven` and `SearchBlockStages`.
//
// Words (docs/glossary.md): an option is a strategy of a layer definition with its costs
// (option_table.h); virtual stages are the several stages of one device; a partition is the number
// of layers of each stage.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_UNEVEN_PARTITION_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_UNEVEN_PARTITION_H_

#include <compare>
#include <cstdint>
#include <limits>
#include <vector>

#include "planner/cost/predict_plan.h"
#include "planner/planners/exact/pipeline/block_choice.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"

namespace parplan {

// [virtual stage] layers, in the order of the model; at least one each.
using UnevenPartition = std::vector<int>;

// How good a plan is: one that needs less beyond the memory first, then the faster one.
struct UnevenScore {
  // Bytes that the fullest device needs beyond its memory, 0 if the plan fits; infinite if nothing
  // is known.
  double excess = std::numeric_limits<double>::infinity();
  // Seconds, with the overhead of a step.
  double step = std::numeric_limits<double>::infinity();

  // Returns whether the plan was simulated.
  bool is_known() const { return excess < std::numeric_limits<double>::infinity(); }
  friend auto operator<=>(const UnevenScore&, const UnevenScore&) = default;
};

// Simulates plans that differ in their partition only. Keeps references to its arguments, which
// must outlive it. `Score`, `LongestPath` and `Excesses` each simulate one plan with the evaluator.
// Whether a plan is in the space is not asked.
class UnevenSimulation {
 public:
  //  options      [definition] index into the table's options; not read for definitions without
  //               layers
  //  group_size   `Plan::micro_batch_group_size`, 0 for as many as the pipeline degree
  UnevenSimulation(const PipelineSetting& setting, const std::vector<int>& options,
                   int64_t group_size, PlanEvaluator& evaluator)
      : setting_(setting), options_(options), group_size_(group_size), evaluator_(evaluator) {}
  // Plans recompute the first layers of each virtual stage, as many as `SetCount` was given last
  // and one at first, in groups of as many micro-batches as there are devices.
  UnevenSimulation(const PipelineSetting& setting, const BlockChoice& choice,
                   PlanEvaluator& evaluator)
      : setting_(setting), options_(choice.whole), choice_(&choice), evaluator_(evaluator) {}

  // Sets how many layers of each virtual stage recompute, for an object of the second constructor;
  // ignored by others.
  void SetCount(int count) { count_ = count; }

  // Returns the plan, which is interleaved, even with one virtual stage a device. REQUIRES, here
  // and below, unchecked: the partition has all layers, and its stages are a multiple of the
  // pipeline degree.
  Plan PlanOf(const UnevenPartition& partition) const;
  // Simulates the plan of a partition and returns how good it is.
  UnevenScore Score(const UnevenPartition& partition);

  // [virtual stage] numbers of passes on a longest path through the schedule of a partition.
  struct Path {
    std::vector<double> forward;
    std::vector<double> backward;
  };
  // Returns one such path. O(stages * micro-batches) time and memory.
  Path LongestPath(const UnevenPartition& partition);
  // Returns [device] the bytes needed beyond the memory (upper end, as in `UnevenScore`), negative
  // if some is left.
  std::vector<double> Excesses(const UnevenPartition& partition);

 private:
  const PipelineSetting& setting_;
  const std::vector<int>& options_;
  // Set if layers are recomputed, with their number in each virtual stage.
  const BlockChoice* const choice_ = nullptr;
  int count_ = 1;
  const int64_t group_size_ = 0;
  PlanEvaluator& evaluator_;
};

// Returns up to five partitions in which devices and virtual stages have about the same work, all
// different; memory is not asked. `options` is [definition], `virtual_stage_count` counts the
// stages of one device. The last one that is tried cuts the layers into shares of equal work. The
// others give one layer after the other to the device, and there to the virtual stage, with the
// least work; they differ in who is first among equals. REQUIRES, unchecked: a layer for each
// virtual stage.
std::vector<UnevenPartition> FirstPartitions(const PipelineSetting& setting,
                                             const std::vector<int>& options,
                                             int virtual_stage_count);

// Returns at most 40 of the partitions that differ from `partition` in one layer taken from a
// virtual stage and one given to another, the layers between them moving up, most promising first:
// those that take memory from the fullest device if it has too much, else those that shorten the
// longest path. A step is a maximum of sums over paths, so a move that does not shorten that path
// helps nothing. Empty if no move promises anything. With more than 48 virtual stages, only the 48
// best to take from and the 48 best to give to are tried. REQUIRES, unchecked: `options` are those
// of `simulation`, and `score` is what it gave for `partition`.
std::vector<UnevenPartition> NeighboursOf(const PipelineSetting& setting,
                                          const std::vector<int>& options,
                                          const UnevenPartition& partition,
                                          const UnevenScore& score, UnevenSimulation& simulation);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_UNEVEN_PARTITION_H_
