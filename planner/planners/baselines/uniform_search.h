// Baselines with one strategy for all layers and equally many transformer layers in each stage,
// plan by plan. `FindPlan` calls it for `megatron` and `fsdp-best`, and other planners for a plan
// to start from.

#ifndef PARPLAN_PLANNER_PLANNERS_BASELINES_UNIFORM_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_BASELINES_UNIFORM_SEARCH_H_

#include <functional>
#include <optional>

#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"
#include "planner/model/strategy.h"

namespace parplan {

// The plans of a grid, within what the problem allows.
struct UniformGrid {
  // Dimensions of the grid, of which those are searched that the problem has too. Per-layer,
  // end-strategy and uneven-stage dimensions are ignored.
  DimensionSet dimensions;
  // Returns whether a strategy of the first transformer layer belongs to the grid; the layers of
  // other definitions follow it, but for sequence parallelism and the degrees of their experts.
  // Must not be empty, and its answer must depend on nothing but the strategy.
  std::function<bool(const Strategy&)> allows;
};

// Finds the best of all plans of the grid: batch size, pipeline degree, micro-batch count,
// schedule, virtual stages and the strategy of the transformer layers, which embedding and head
// follow except for recomputation. Each plan is simulated by `PlanEvaluator`, except for plans in
// which the work of the transformer layers alone takes longer per sample than the best plan found
// before: they cannot be better. So the answer is proved over the grid unless a limit of `control`
// ended the search, and so is the smallest memory if nothing fits. It is an independent check on
// `exact`, whose space contains the grid. O(plans) time on the calling thread, whatever
// `control.parallel_for` is; the states that `SearchControl::max_state_count` limits are simulated
// plans. No alternatives, no memory front.
//
// Returns nothing if the grid has no plan regardless of memory, as for a model without transformer
// layers, and `StoppedEmpty` if a limit ended the search before that was known or a plan that fits
// was found.
std::optional<PlanningResult> SearchUniform(const PlanningProblem& problem, const CostModel& costs,
                                            const UniformGrid& grid, const SearchControl& control);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_BASELINES_UNIFORM_SEARCH_H_
