// The planners, behind one function.

#ifndef PARPLAN_PLANNER_FIND_PLAN_H_
#define PARPLAN_PLANNER_FIND_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"

namespace parplan {

// Names for `FindPlan`: the default first, then the other planners, then the
// baselines, each described in docs/search.md.
const std::vector<std::string>& PlannerNames();

// The names among them that are pure or fixed combinations of paradigms, in
// the same order: `dp`, `sdp`, `tp`, `pp`, `dp+tp`, `dp+pp`, `deepspeed-3d`, `megatron`,
// `fsdp-best` (baselines.h).
const std::vector<std::string>& BaselineNames();

// The names among them that can give more plans than one (`top_plan_count`), and a front of
// time and memory (`wants_memory_front`), in the same order.
const std::vector<std::string>& PlannersWithAlternatives();
const std::vector<std::string>& PlannersWithFront();

// `rules` as `planner` takes them beside others, in a comparison of one plan each: without
// what it would refuse.
PlanningRules RulesForOnePlan(PlanningRules rules, absl::string_view planner);

// Answers `problem` with the planner named. Deterministic: the same problem
// gives the same plan and the same counts unless a limit of time ended it.
//
// INVALID_ARGUMENT (SPEC_INVALID) for an unknown planner, naming those there
// are, for more than one plan or a front asked of one that gives none, and for an alpha
// (`ilp_alpha_bytes_per_second`) with another than `min-memory-ilp`; FAILED_PRECONDITION
// (PROFILE_MISSING) from the cost model; FAILED_PRECONDITION (NO_FEASIBLE_PLAN) when, whatever the
// memory, no degrees of the planner divide devices, heads and batch under rules, space and target.
absl::StatusOr<PlanningResult> FindPlan(const PlanningProblem& problem, absl::string_view planner,
                                        const SearchControl& control = {});

}  // namespace parplan

#endif  // PARPLAN_PLANNER_FIND_PLAN_H_
