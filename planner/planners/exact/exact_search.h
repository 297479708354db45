// The planner `exact`: the best plan of the declared space (docs/search.md), with a proof.
// `FindPlan` calls it.
//
// Words (docs/glossary.md): a partition is the number of layers of each stage.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_EXACT_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_EXACT_SEARCH_H_

#include <optional>

#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"

namespace parplan {

// Finds the plan with the least time per sample over batch sizes, pipeline degrees, micro-batch
// counts, schedules, partitions and strategies, under the whole cost model (`PlanEvaluator`).
//
// `kOptimal` if the proved lower bound equals the plan's time up to `kProofTolerance`; otherwise
// `kFeasible` with the gap and the limit that ended the search (`kMethod`: the enumeration's own
// limits, which `SearchControl::wanted_gap_ratio` makes it raise; `kGap`: that gap). A limit ends
// the search with the best plan so far; if there is none, with one of a few simple plans
// (`FindFirstPlan`), which `PlanFound::notes` say, or `StoppedEmpty` if none of these fits.
// `NothingFits` if no plan is found and the least memory that suffices is, `kFeasible` unless it is
// proved. If neither is found and nothing is proved, `StoppedEmpty` with `kMethod`. Returns nothing
// if no pipeline degree has a strategy for every layer, the target runs no plan of them, or no
// memory is enough for any.
//
// `PlanFound::alternatives` has up to `PlanningRules::top_plan_count` - 1 plans. The memory front,
// if the rules want it, has at most 64 plans, each of which needs at most 99 % of the memory of the
// one before; a note says if it was cut short. Among equally fast plans the answer is then the
// smallest, else the first by `IsBetterPlan`.
//
// Blocks until the end; `control.parallel_for` may run parts of it on other threads, and
// `control.on_progress` is called on the calling one. Deterministic on any number of threads. Keeps
// no reference. REQUIRES, unchecked: `costs` are those of `problem`. The problem must have one node
// group, which `FindPlan` checks; with more, it aborts if nothing fits.
std::optional<PlanningResult> SearchExact(const PlanningProblem& problem, const CostModel& costs,
                                          const SearchControl& control);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_EXACT_SEARCH_H_
