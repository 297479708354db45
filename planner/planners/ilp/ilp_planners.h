// Planners that choose operator by operator with an integer program.

#ifndef PARPLAN_PLANNER_PLANNERS_ILP_ILP_PLANNERS_H_
#define PARPLAN_PLANNER_PLANNERS_ILP_ILP_PLANNERS_H_

#include <optional>

#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"

namespace parplan {

// The least memory (Shi et al., FITEE 26(1), 2025; docs/min-memory-ilp.md): for every
// mesh and micro-batch size, the program that asks for the least memory and then the
// least time; of the meshes of a micro-batch size the best; its nearest plan; and of
// those plans the one with the smallest peak, then the better one. No pipeline, no
// recomputation. Of a range of batches only the ends are tried.
//
// With an alpha (`PlanningRules::ilp_alpha_bytes_per_second`) the programs minimise memory +
// alpha * time instead, and of the plans the one with the least peak + alpha * step answers.
//
// The answer does not depend on the memory there is: it fits or it does not. Nothing when
// no plan of one stage exists. A program cut off by a limit makes the answer `kFeasible`
// with that limit; otherwise the termination says `kMethod`, since nothing is proved of the
// step, and `notes` say what was proved of memory.
//
// `SearchControl::max_state_count` counts steps of the simplex method.
std::optional<PlanningResult> SearchMinMemoryIlp(const PlanningProblem& problem,
                                                 const CostModel& costs,
                                                 const SearchControl& control);

// The least time under a cap on memory, as Alpa's intra-operator pass asks (Zheng et al.,
// OSDI'22, section 4.2), over the same graph. Programs are solved without a cap and with
// caps between the least peak and that of the fastest solution; the answer is the fastest
// of their nearest plans that fits, so more memory is never slower.
std::optional<PlanningResult> SearchAlpaLike(const PlanningProblem& problem, const CostModel& costs,
                                             const SearchControl& control);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_ILP_ILP_PLANNERS_H_
