// Planners that choose operator by operator with an integer programme. `IlpSearches` hands them to
// `FindPlan`. They search on the calling thread and keep no reference, except that
// `SearchMinMemoryIlp` runs part of its search on the threads of `SearchControl::parallel_for`, if
// that is set. Alternatives are the next best of the plans that they met and that fit, as many as
// the rules want; there is no memory front and no bound. REQUIRES: every layer has the usual parts
// (`HasUsualParts`), which `FindPlan` checks; they abort otherwise.

#ifndef PARPLAN_PLANNER_PLANNERS_ILP_ILP_PLANNERS_H_
#define PARPLAN_PLANNER_PLANNERS_ILP_ILP_PLANNERS_H_

#include <optional>

#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"

namespace parplan {

// The planner `min-memory-ilp`: least memory (Shi et al., FITEE 26(1), 2025;
// docs/min-memory-ilp.md).
//
// The answer is the plan with the smallest `peak_memory_upper` of the space that the question
// allows, then the better one (`IsBetterPlan`), from these sources:
//  - the least-memory plan of that space (`FindLeastMemoryPlan`), pipelines and recomputation
//    included where the space has them;
//  - if that is not proved to be the least, also the smallest plans of the grids `megatron` and
//    `fsdp-best` and all plans of `alpa-like`;
//  - for every micro-batch size, the plan nearest to the programme for the least memory and then
//    the least time on the best mesh. If the batch may vary, only the ends of its range are tried.
//
// With an alpha (`PlanningRules::ilp_alpha_bytes_per_second`) the programmes minimise memory +
// alpha * time instead, and the plan with the least peak + alpha * step is the answer.
//
// Anytime: a plan of least memory for each layer of one stage, with and without recomputation, and
// if neither fits, the first plan that does among up to 64 candidates (pipeline degree, schedule,
// batch and micro-batches), are found before a limit is asked. So a limit ends the search without
// a plan only if none of these fits. Returns nothing if no plan exists at any memory. If a limit
// ended a search, the answer is `kFeasible` with that limit; otherwise with `kMethod`, because
// nothing is proved about the step, and `notes` say what was proved about memory.
//
// `SearchControl::max_state_count` counts steps of the simplex method, and on its own the states of
// the searches over plans.
std::optional<PlanningResult> SearchMinMemoryIlp(const PlanningProblem& problem,
                                                 const CostModel& costs,
                                                 const SearchControl& control);

// The planner `alpa-like`: least time under a cap on memory, as Alpa's intra-operator pass does
// (Zheng et al., OSDI'22, section 4.2), over the same graph. Solves programmes without a cap and
// with caps between the least peak and that of the fastest solution; the answer is the fastest of
// their nearest plans, and of the plan of least memory for each layer, that fits. So more memory is
// never slower. No pipeline, no recomputation. Results and states are as above, but only the plan
// of least memory for each layer is found before a limit is asked. Returns nothing if no plan of
// one stage exists at any memory, or the schedule of the rules has virtual stages.
std::optional<PlanningResult> SearchAlpaLike(const PlanningProblem& problem, const CostModel& costs,
                                             const SearchControl& control);

// The planner `colossal-auto-like`: two steps, as Colossal-Auto takes them (Liu et al., 2023, from
// memory, unverified; docs/papers.md 4.1): an integer program under a budget of memory, and then
// recomputation chosen for its solution so that it fits. The program, its budgets and the plans are
// those of `alpa-like`; each plan that does not fit recomputes as few layers as are enough
// (`RecomputedToFit`, where Colossal-Auto has a solver for chains), and the fastest plan that fits
// is the answer. So it is never slower than `alpa-like`, and more memory is never slower. All of
// that is ours except for the two steps. Results and states are as for `alpa-like`, and the plan
// that is found before a limit is asked also recomputes if it must.
std::optional<PlanningResult> SearchColossalAutoLike(const PlanningProblem& problem,
                                                     const CostModel& costs,
                                                     const SearchControl& control);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_ILP_ILP_PLANNERS_H_
