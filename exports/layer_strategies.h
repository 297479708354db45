// A plan layer by layer: the strategy of each, and where stages end. The exporters and importers of
// plans for PyTorch work on it.

#ifndef PARPLAN_EXPORTS_LAYER_STRATEGIES_H_
#define PARPLAN_EXPORTS_LAYER_STRATEGIES_H_

#include <vector>

#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// The layers of a plan in the order of the model, without runs.
struct LayerStrategies {
  // Layers of each stage, in the order of the model.
  std::vector<int> stage_layer_counts;
  // [layer]
  std::vector<Strategy> strategies;
};

// Returns the layers of `plan`, whose stages are taken as they stand. O(layers).
LayerStrategies LayerStrategiesOf(const Plan& plan);

// Returns the stages of a plan with these layers, `rank_count` ranks each: stage i is on the ranks
// from `rank_count` times (i modulo `pipeline_parallel_degree`) on. Neighbouring layers of one
// definition and strategy are one run (`AppendLayer`, planner/model/stage_layers.h).
// `LayerStrategiesOf` gives the layers again. O(layers). REQUIRES: `pipeline_parallel_degree` and
// the counts are positive, and these add up to the strategies, which are as many as the layers of
// `model`. Aborts if the counts add up to more layers than `model` has; the rest is not checked.
std::vector<StagePlan> StagesOf(const LayerStrategies& layers, const ModelSpec& model,
                                int pipeline_parallel_degree, int rank_count);

// Returns `plan` with neighbouring runs of one definition and strategy as one. Payloads may divide
// such runs; plans that `StagesOf` and `PlanOf` make never do, so that the result can be compared
// with theirs. Errors about a plan are to name the runs of `plan` itself. O(runs).
Plan WithJoinedRuns(Plan plan, const ModelSpec& model);

}  // namespace parplan

#endif  // PARPLAN_EXPORTS_LAYER_STRATEGIES_H_
