// Plans in this process, without a server: files in, a plan out. `planctl plan --offline`,
// `evaluate`, `compare`, `explain` and `ilp-graph` call it.

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

// All functions use the measurements of `profiles` (of two measurements of the same thing, that of
// the earlier profile), the data sheets of the library, and `calibration`, or
// `PublishedCalibration` if it is null.
//
// Without any profile, devices of the library are planned for from data sheets
// alone, whether or not `spec.options` allows estimates: there is nothing else to plan from.
// Other devices need a profile: INVALID_ARGUMENT (SPEC_INVALID) naming `--profile`. A cluster of
// several node groups is INVALID_ARGUMENT (SPEC_INVALID) naming `topology.node_groups`.

// Returns the problem of `spec`. Apart from the errors above: INVALID_ARGUMENT for a spec
// (SPEC_INVALID, `AskedPlanFromProto`), a fabric that is not in the library (SPEC_INVALID) or a
// profile (PROFILE_INVALID) that breaks a rule, and FAILED_PRECONDITION (PROFILE_MISSING) if the
// profiles have nothing on these nodes and estimates are not allowed.
absl::StatusOr<PlanningProblem> OfflineProblem(
    const v1::PlanSpec& spec, const std::vector<v1::Profile>& profiles,
    const std::shared_ptr<const Calibration>& calibration = nullptr);

// Runs the planner that `spec.options` names, and the baselines if it asks for them, checks the
// answer, and returns it as a view on an unsigned payload. Limits hold for each search. Apart from
// the errors of `OfflineProblem`: FAILED_PRECONDITION (NO_FEASIBLE_PLAN) with the smallest memory
// that would fit and the smallest number of devices, DEADLINE_EXCEEDED (SEARCH_TIMED_OUT), and the
// other errors of SearchHere.
absl::StatusOr<PlanView> PlanOffline(
    const v1::PlanSpec& spec, const std::vector<v1::Profile>& profiles,
    const std::shared_ptr<const Calibration>& calibration = nullptr, const SearchWatch& watch = {});

// Returns the problem that a given plan answers, with the errors of `EvaluateOffline` except those
// of `CostModel::Create`.
absl::StatusOr<PlanningProblem> ProblemOfPlan(
    const v1::PlanSpec& spec, const std::vector<v1::Profile>& profiles, const Plan& plan,
    const std::shared_ptr<const Calibration>& calibration = nullptr);

// Predicts a given plan. The schedule and, if `spec` names none, the batch size are the plan's, and
// the largest tensor-parallel degree is at least the plan's; space, target and range of batch sizes
// are ignored, so plans that no search makes can be predicted too.
//
// Apart from the errors of `OfflineProblem` and `CostModel::Create`: INVALID_ARGUMENT
// (SPEC_INVALID) naming `--batch` or `--micro-batches` if `spec` has another than the plan, and
// `plan` if it is not a plan for this model and cluster. A plan that does not fit is an answer: see
// `Prediction::fits`.
absl::StatusOr<PlanView> EvaluateOffline(
    const v1::PlanSpec& spec, const std::vector<v1::Profile>& profiles, const Plan& plan,
    const std::shared_ptr<const Calibration>& calibration = nullptr);

// Runs every planner on the same question, in the order of `PlannerNames`, each under the
// limits of `spec`. A planner without a plan has a row that says so. Returns the errors of
// `OfflineProblem`, and those of SearchHere that are no answer.
absl::StatusOr<std::vector<v1::PlannerComparison>> CompareOffline(
    const v1::PlanSpec& spec, const std::vector<v1::Profile>& profiles,
    const std::shared_ptr<const Calibration>& calibration = nullptr, const SearchWatch& watch = {});

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_OFFLINE_OFFLINE_PLANNER_H_
