// Finds a plan for a problem with one of several planners.
//
//   absl::StatusOr<PlanningProblem> problem = PlanningProblem::Create(...);
//   SearchControl control;
//   control.should_stop = [&] { return clock.Now() > deadline; };
//   absl::StatusOr<PlanningResult> result = FindPlan(*problem, "exact", control);
//   if (!result.ok()) return result.status();                     // a bad question
//   if (const auto* found = std::get_if<PlanFound>(&*result)) {
//     Use(found->plan, found->prediction, found->search.gap_ratio);
//   } else if (const auto* nothing = std::get_if<NothingFits>(&*result)) {
//     Report(nothing->smallest_usable_memory);                    // a result, not an error
//   } else {
//     Report(std::get<StoppedEmpty>(*result).search.limit);       // ended before any plan
//   }
//
// `RunSearch` (solve/run_search.h) calls it under a clock and checks the result; server and planctl
// plan through that.
//
// Lifecycle: no state is kept between calls; `problem` and `control` are used only during the call.
//
// Threads: any number of threads may call `FindPlan` at the same time. A call starts no thread
// itself; it runs part of the search on the threads of `control.parallel_for`, if that is set. The
// functions of `control` must be safe to call from these threads, except for `on_progress`, which
// is called only on the calling thread.

#ifndef PARPLAN_PLANNER_FIND_PLAN_H_
#define PARPLAN_PLANNER_FIND_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"

namespace parplan {

// Returns the names of the planners in this build: the default first, then the other planners, then
// the baselines. docs/search.md describes each. This list and those below live as long as the
// program.
const std::vector<std::string>& PlannerNames();

// Returns the names of the baselines, planners that are pure or fixed combinations of paradigms, in
// the same order: `dp`, `sdp`, `tp`, `pp`, `dp+tp`, `dp+pp`, `deepspeed-3d`, `megatron`,
// `fsdp-best` (baselines.h).
const std::vector<std::string>& BaselineNames();

// Return the names of the planners that can give several plans (`top_plan_count`), and those that
// can give a front of time and memory (`wants_memory_front`), in the same order.
const std::vector<std::string>& PlannersWithAlternatives();
const std::vector<std::string>& PlannersWithFront();

// Returns `rules` for one plan without a front, and without the options that `planner` would
// refuse, for comparing one plan of each of several planners. For an unknown planner all such
// options are left out.
PlanningRules RulesForOnePlan(PlanningRules rules, absl::string_view planner);

// Answers `problem` with a planner. Deterministic: the same problem gives the same plan and the
// same counts, on any number of threads, unless a limit of time ended the search; the result says
// so.
//
// Errors, of which SPEC_INVALID names an option (`options.top_plan_count`), `planner`,
// `topology.node_groups` or `global_batch_size` as `field`:
//
//   INVALID_ARGUMENT (SPEC_INVALID)       the planner is unknown or not part of this build; the
//                                         problem has several node groups; the rules ask for
//                                         several plans, a front, an alpha
//                                         (`ilp_alpha_bytes_per_second`), a partitioner, a memory
//                                         granule or fused layers that it does not have; or it
//                                         plans operators and does not know those of a layer
//                                         (`HasUsualParts`); or sizes add up beyond what
//                                         `CostModel::Create` allows
//   FAILED_PRECONDITION (PROFILE_MISSING) the cost model lacks a measurement
//   FAILED_PRECONDITION (NO_FEASIBLE_PLAN) regardless of memory, no degrees of the planner divide
//                                         devices, heads and batch within rules, space and target
//
// That nothing fits into memory is not an error but the result `NothingFits`; a limit that ended
// the search is not one either (`StoppedEmpty`, or `PlanFound` with the best plan so far). Without
// a limit in `control` a search runs to its end, however long that takes. The limits hold from when
// the cost model is made.
absl::StatusOr<PlanningResult> FindPlan(const PlanningProblem& problem, absl::string_view planner,
                                        const SearchControl& control = {});

}  // namespace parplan

#endif  // PARPLAN_PLANNER_FIND_PLAN_H_
