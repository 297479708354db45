// Baselines that choose layer by layer within a fixed combination of paradigms. `FindPlan` and the
// planners of the Galvatron papers call it.
//
// Words (docs/glossary.md): a candidate is all plans of one batch size, pipeline degree, number of
// micro-batches and schedule; a partition is the number of layers of each stage.

#ifndef PARPLAN_PLANNER_PLANNERS_BASELINES_BASELINE_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_BASELINES_BASELINE_SEARCH_H_

#include <optional>

#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"
#include "planner/search/space/strategy_tree.h"

namespace parplan {

// Finds the best plan in `space`, over batch sizes, pipeline degrees and micro-batch counts. A
// stage is solved to optimality (layer_assignment.h); partitions are found by balancing and moving
// layers (candidate_search.h). So the answer is proved for one stage, and has a gap to a proved
// bound for several. The schedule is 1F1B unless the rules ask for GPipe, with which plans have
// several stages only if the dimensions have it.
//
// If the problem's dimensions lack `per-layer` or `end-strategies`, all transformer layers have one
// strategy, and without `end-strategies` embedding and head have it too; without `uneven-stages`
// only the even partition is used. A partitioner of the rules other than `kBest` leaves one
// partition too. No alternatives, no memory front; `PlanFound::notes` has the partitioner.
//
// Returns `NothingFits` if no plan that it tried fits (its `memory_is_proved` is false if the
// runtime keeps memory that the tables of a stage lack; it names no number of devices and no plan),
// `StoppedEmpty` if `control` ended the search before a plan was found, and nothing if, regardless
// of memory, no candidate has a strategy for every layer, or the rules ask for a schedule with
// virtual stages. Searches on the calling thread alone, whatever `control.parallel_for` is, and
// keeps no reference. REQUIRES, unchecked: `costs` was made for `problem`.
std::optional<PlanningResult> SearchBaseline(const PlanningProblem& problem, const CostModel& costs,
                                             const SearchSpace& space,
                                             const SearchControl& control);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_BASELINES_BASELINE_SEARCH_H_
