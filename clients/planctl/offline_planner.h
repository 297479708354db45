// Planning in this process, with no server: files in, a plan out.

#ifndef PARPLAN_CLIENTS_PLANCTL_OFFLINE_PLANNER_H_
#define PARPLAN_CLIENTS_PLANCTL_OFFLINE_PLANNER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/planctl/plan_view.h"
#include "parplan/v1/plan.pb.h"
#include "parplan/v1/plan_service.pb.h"
#include "parplan/v1/profile.pb.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"

namespace parplan::planctl {

// The problem of `spec` over `profiles`, the first of them winning where two
// measured the same, and over the data sheets of the library. Where the devices are
// in it and `spec.options` allows estimates, no profile is needed. Errors as
// `ProblemFromSpec`, `KnownHardware` and `SnapshotOfNodes`.
absl::StatusOr<PlanningProblem> OfflineProblem(const v1::PlanSpec& spec,
                                               const std::vector<v1::Profile>& profiles);

// Runs the planner that `spec.options` names, and the baselines when it asks
// for them, checks the answer, and gives it as an unsigned payload with a view
// on it. `on_progress` may be empty. Beside the errors of `OfflineProblem`:
// FAILED_PRECONDITION (NO_FEASIBLE_PLAN) with the smallest memory that would
// fit, DEADLINE_EXCEEDED (SEARCH_TIMED_OUT).
absl::StatusOr<PlanView> PlanOffline(
    const v1::PlanSpec& spec, const std::vector<v1::Profile>& profiles,
    const std::function<void(const v1::SearchProgress&)>& on_progress = {});

// What the cost model expects of a plan that is given, under the same problem.
// INVALID_ARGUMENT (SPEC_INVALID) when the plan is none for this model and
// cluster. A plan that does not fit is an answer: see `Prediction::fits`.
absl::StatusOr<PlanView> EvaluateOffline(const v1::PlanSpec& spec,
                                         const std::vector<v1::Profile>& profiles,
                                         const Plan& plan);

// Every planner on the same question, in the order of `PlannerNames`.
absl::StatusOr<std::vector<v1::PlannerComparison>> CompareOffline(
    const v1::PlanSpec& spec, const std::vector<v1::Profile>& profiles);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_OFFLINE_PLANNER_H_
