// The planners of the Galvatron papers, as published (docs/papers.md 1 and 2).

#ifndef PARPLAN_PLANNER_PLANNERS_GALVATRON_GALVATRON_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_GALVATRON_GALVATRON_SEARCH_H_

#include <optional>

#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"

namespace parplan {

// The published variants.
enum class GalvatronVariant {
  kGalvatron,      // PVLDB 16(3): no recomputation, memory-balanced stages
  kGalvatronBase,  // TKDE 2024 without the bi-objective partition: with recomputation
  kGalvatronBmw,   // and with it
};

// Searches with a variant's method. Proves only that nothing of its own method fits; otherwise the
// answer is `kFeasible` with `kMethod`. For `kGalvatronBmw`, `PlanFound::notes` has alpha_t and
// alpha_m before and after. Returns nothing if no pipeline degree has a strategy for every layer.
std::optional<PlanningResult> SearchGalvatron(const PlanningProblem& problem,
                                              const CostModel& costs, GalvatronVariant variant,
                                              const SearchControl& control);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_GALVATRON_GALVATRON_SEARCH_H_
