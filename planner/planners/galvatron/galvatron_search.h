// The planners of the Galvatron papers, as far as texts and public code bear them (docs/papers.md 1
// and 2; rules of ours in 1.10 and 2.6). `FindPlan` calls `SearchGalvatron`; `exact` calls
// `SearchGalvatronMethod` for a plan to start from, and so do studies.

#ifndef PARPLAN_PLANNER_PLANNERS_GALVATRON_GALVATRON_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_GALVATRON_GALVATRON_SEARCH_H_

#include <optional>

#include "absl/types/span.h"
#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"
#include "planner/planners/baselines/baselines.h"
#include "planner/planners/galvatron/galvatron_method.h"

namespace parplan {

// The variants. Each has the methods of those before it.
enum class GalvatronVariant {
  kGalvatron,      // PVLDB 16(3): nothing is recomputed; stages by the partitioner of the rules
  kGalvatronBase,  // TKDE 2024 without the bi-objective partition: with recomputation too
  kGalvatronBmw,   // and with stages adjusted from balanced memory to balanced time
};

// Searches with the methods of a variant and the paper's baselines, whose plans are in its space
// (docs/papers.md 1.1), and answers with the best plan of all. So within limits that end no search
// an answer is never worse than that of a baseline, of a variant before it, or without
// recomputation.
//
// Searches on the calling thread alone. Answers `NothingFits` (`kOptimal`, which is proved for
// these methods and baselines; other plans may need less than its memory), `StoppedEmpty` if a
// limit ended the search without a plan, or that for the smallest memory, else `PlanFound`, without
// alternatives whatever the rules want: `kFeasible` with `kMethod`, or with the limit that ended
// it, and a bound of the plans of these methods and baselines. `PlanFound::notes` has the
// partitioner, what found the plan, a coarser unit of memory and fused layers where the rules have
// them and, for `kGalvatronBmw`, alpha_t and alpha_m of both ends and the answer, for which the
// walks of the answer are made again with a count of states of their own. Returns nothing if no
// pipeline degree has a strategy for every layer, or the schedule of the rules has several stages
// per device.
std::optional<PlanningResult> SearchGalvatron(const PlanningProblem& problem,
                                              const CostModel& costs, GalvatronVariant variant,
                                              const SearchControl& control);

// Searches with one method alone, for a plan to start from. No baselines, no notes, and no search
// as if devices were smaller (docs/galvatron.md, *More memory*), which the other has; otherwise as
// above.
std::optional<PlanningResult> SearchGalvatronMethod(const PlanningProblem& problem,
                                                    const CostModel& costs, GalvatronMethod method,
                                                    const SearchControl& control);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_GALVATRON_GALVATRON_SEARCH_H_
