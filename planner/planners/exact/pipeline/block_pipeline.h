// The best plans with block recomputation of one candidate and choice, without virtual stages.
//
// For each number of recomputed layers every range of layers has one way to run as a stage, so only
// the partition is left to find: that of the least bound of the schedule (suffix_search.h), in the
// graph of partitions of plans whose layers recompute or not as they like (partition_graph.h).
// `SearchBlocks` calls it.
//
// Words (docs/glossary.md): a cutoff is a time that a plan must stay below to be wanted; a front is
// the ways to run a stage of which none is better than another in every time; a candidate is all
// plans of one batch size, pipeline degree, number of micro-batches and schedule; a partition is
// the number of layers of each stage.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_BLOCK_PIPELINE_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_BLOCK_PIPELINE_H_

#include <map>
#include <tuple>
#include <vector>

#include "planner/cost/layer_memory.h"
#include "planner/cost/predict_plan.h"
#include "planner/planners/exact/pipeline/block_bound.h"
#include "planner/planners/exact/pipeline/block_choice.h"
#include "planner/planners/exact/pipeline/front_cache.h"
#include "planner/planners/exact/pipeline/plan_assembly.h"
#include "planner/search/base/search_meter.h"

namespace parplan {

// Runs each stage with its first layers recomputed. Keeps references to its arguments, which must
// outlive it. Not thread-safe. REQUIRES, here and below, unchecked: `choice` was made from the
// table of `setting`.
class BlockRule : public StageRule {
 public:
  BlockRule(const PipelineSetting& setting, const BlockChoice& choice);

  // Recomputes `count` layers of each stage from now on, at least 1, of those that can be
  // recomputed, or all of them where there are fewer. Ends the validity of all fronts. At first it
  // is one layer.
  void SetCount(int count);

  // Returns the choice if the stage fits into the memory of the problem as `PlanEvaluator` has it,
  // else an empty front. The front is valid until `SetCount`.
  const StageFront& Front(int stage, int first_layer, int end_layer) override;

 private:
  bool Fits(int stage, int first_layer, const std::vector<int>& options) const;

  const PipelineSetting& setting_;
  const BlockChoice& choice_;
  int count_ = 1;
  // [definition] memory of a layer without recomputation, and with it.
  std::vector<LayerMemory> whole_;
  std::vector<LayerMemory> recomputed_;
  std::map<std::tuple<int, int, int>, StageFront> fronts_;
};

// Returns a lower bound of the steps of such plans under the schedule of the setting, whatever the
// number of recomputed layers, or `cutoff`, which may be infinite, if that is less; infinite if
// memory never suffices. If `meter` stops, it still holds, but may be low. In seconds, without
// the overhead, as below. `evaluator` is one for the problem of the setting, here and below.
double BlockPipelineBound(const PipelineSetting& setting, const BlockChoice& choice,
                          PlanEvaluator& evaluator, double cutoff, SearchMeter& meter);

// Adds the best `wanted` plans with steps below `cutoff` to `plans`, which keeps as many, and
// returns a lower bound of the steps of all such plans, or `cutoff` if that is less, or the step of
// the last of `plans` if these are full and that is less: slower plans are no longer looked for.
// Clears `is_exact` if the best of them may be missing, and never sets it. `bound` is that of the
// same setting and choice with one virtual stage.
double SearchBlockPipeline(const PipelineSetting& setting, const BlockChoice& choice,
                           const BlockBound& bound, PlanEvaluator& evaluator, double cutoff,
                           int wanted, PlanList& plans, bool& is_exact, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_BLOCK_PIPELINE_H_
