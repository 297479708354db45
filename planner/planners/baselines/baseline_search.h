// Baselines that choose layer by layer within a fixed combination of paradigms.

#ifndef PARPLAN_PLANNER_PLANNERS_BASELINES_BASELINE_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_BASELINES_BASELINE_SEARCH_H_

#include <optional>

#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"
#include "planner/search/space/strategy_tree.h"

namespace parplan {

// The best plan found in `space`, over batches, pipeline degrees and micro-batch counts:
// a stage is solved to its end by itself (layer_assignment.h), stages are cut by balance
// and moves of layers (candidate_search.h). So one stage is proved; with several, the
// answer says the gap to a proved bound. Schedule 1F1B unless the rules want GPipe.
//
// Where the problem's dimensions lack `per-layer` or `end-strategies`, all transformer
// layers have one strategy, and embedding and head too where `end-strategies` is the one;
// without `uneven-stages` the only partition is the even one. No alternatives, no front.
//
// Nothing when, whatever the memory, no candidate has a strategy for every layer.
std::optional<PlanningResult> SearchBaseline(const PlanningProblem& problem, const CostModel& costs,
                                             const SearchSpace& space,
                                             const SearchControl& control);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_BASELINES_BASELINE_SEARCH_H_
