// Planning in this process, with no server: files in, a plan out.

#ifndef PARPLAN_CLIENTS_PLANCTL_OFFLINE_OFFLINE_PLANNER_H_
#define PARPLAN_CLIENTS_PLANCTL_OFFLINE_OFFLINE_PLANNER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/planctl/offline/local_search.h"
#include "clients/planctl/view/plan_view.h"
#include "parplan/v1/plan.pb.h"
#include "parplan/v1/profile.pb.h"
#include "planner/model/calibration.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"

namespace parplan::planctl {

// All functions plan over `profiles`, the first of them winning where two measured
// the same, over the data sheets of the library, and under `calibration` (null:
// `PublishedCalibration`).
//
// Without any profile, devices of the library are planned for from data sheets
// alone, whether or not `spec.options` allows estimates: nothing else can be meant.
// Other devices need a profile: INVALID_ARGUMENT (SPEC_INVALID) naming `--profile`.

// The problem of `spec`. Errors as `AskedPlanFromProto`, `KnownHardware` and
// `SnapshotOfNodes`.
absl::StatusOr<PlanningProblem> OfflineProblem(
    const v1::PlanSpec& spec, const std::vector<v1::Profile>& profiles,
    const std::shared_ptr<const Calibration>& calibration = nullptr);

// Runs the planner that `spec.options` names, and the baselines when it asks
// for them, checks the answer, and gives it as an unsigned payload with a view
// on it. Limits are of each search. Beside the errors of `OfflineProblem`:
// FAILED_PRECONDITION (NO_FEASIBLE_PLAN) with the smallest memory that would
// fit and the smallest number of devices, DEADLINE_EXCEEDED (SEARCH_TIMED_OUT).
absl::StatusOr<PlanView> PlanOffline(
    const v1::PlanSpec& spec, const std::vector<v1::Profile>& profiles,
    const std::shared_ptr<const Calibration>& calibration = nullptr, const SearchWatch& watch = {});

// The problem that a given plan answers: as `EvaluateOffline`, and with its errors.
absl::StatusOr<PlanningProblem> ProblemOfPlan(
    const v1::PlanSpec& spec, const std::vector<v1::Profile>& profiles, const Plan& plan,
    const std::shared_ptr<const Calibration>& calibration = nullptr);

// What the cost model expects of a plan that is given. Schedule and, where `spec`
// names none, batch and largest tensor-parallel degree are the plan's; space, target and
// range of batches are not asked, so plans that no search makes have an answer too.
//
// INVALID_ARGUMENT (SPEC_INVALID) naming `--batch` or `--micro-batches` when `spec`
// has another than the plan, and `plan` when it is none for this model and cluster.
// A plan that does not fit is an answer: see `Prediction::fits`.
absl::StatusOr<PlanView> EvaluateOffline(
    const v1::PlanSpec& spec, const std::vector<v1::Profile>& profiles, const Plan& plan,
    const std::shared_ptr<const Calibration>& calibration = nullptr);

// Every planner on the same question, in the order of `PlannerNames`, each under the
// limits of `spec`.
absl::StatusOr<std::vector<v1::PlannerComparison>> CompareOffline(
    const v1::PlanSpec& spec, const std::vector<v1::Profile>& profiles,
    const std::shared_ptr<const Calibration>& calibration = nullptr, const SearchWatch& watch = {});

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_OFFLINE_OFFLINE_PLANNER_H_
