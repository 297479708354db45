// Planners that choose operator by operator with an integer programme.

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
// For every mesh and micro-batch size it solves the programme for the least memory and then the
// least time; takes the best mesh of each micro-batch size and the plan nearest to its solution;
// and of those plans the one with the smallest peak, then the better one. No pipeline, no
// recomputation. If the batch may vary, only the ends of its range are tried.
//
// With an alpha (`PlanningRules::ilp_alpha_bytes_per_second`) the programmes minimise memory +
// alpha * time instead, and the plan with the least peak + alpha * step is the answer.
//
// The answer does not depend on the available memory: it fits or it does not. Returns nothing if no
// plan of one stage exists. If a limit cut a programme off, the answer is `kFeasible` with that
// limit; otherwise with `kMethod`, because nothing is proved about the step, and `notes` say what
// was proved about memory.
//
// `SearchControl::max_state_count` counts steps of the simplex method.
std::optional<PlanningResult> SearchMinMemoryIlp(const PlanningProblem& problem,
                                                 const CostModel& costs,
                                                 const SearchControl& control);

// The planner `alpa-like`: least time under a cap on memory, as Alpa's intra-operator pass does
// (Zheng et al., OSDI'22, section 4.2), over the same graph. Solves programmes without a cap and
// with caps between the least peak and that of the fastest solution; the answer is the fastest of
// their nearest plans that fits, so more memory is never slower.
std::optional<PlanningResult> SearchAlpaLike(const PlanningProblem& problem, const CostModel& costs,
                                             const SearchControl& control);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_ILP_ILP_PLANNERS_H_
