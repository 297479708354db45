// Plans in this process, without a server.

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
// Without any profile they plan from data sheets alone, whether or not `spec.options` allows
// estimates. Devices that are not in the library need a profile: INVALID_ARGUMENT (SPEC_INVALID)
// naming `--profile`.

// Returns the problem of `spec`. The errors of `AskedPlanFromProto`, `KnownHardware`,
// `SnapshotOfNodes` and `ProblemFor`.
absl::StatusOr<PlanningProblem> OfflineProblem(
    const v1::PlanSpec& spec, const std::vector<v1::Profile>& profiles,
    const std::shared_ptr<const Calibration>& calibration = nullptr);

// Runs the planner that `spec.options` names, and the baselines if it asks for them, checks the
// answer, and returns it as an unsigned payload with a view of it. The limits of `spec.options` are
// for each search. The errors of `OfflineProblem`; FAILED_PRECONDITION (NO_FEASIBLE_PLAN) with the
// smallest memory and the smallest number of devices that would suffice; DEADLINE_EXCEEDED
// (SEARCH_TIMED_OUT).
absl::StatusOr<PlanView> PlanOffline(
    const v1::PlanSpec& spec, const std::vector<v1::Profile>& profiles,
    const std::shared_ptr<const Calibration>& calibration = nullptr, const SearchWatch& watch = {});

// Returns the problem under which `EvaluateOffline` evaluates `plan`, with the same errors.
absl::StatusOr<PlanningProblem> ProblemOfPlan(
    const v1::PlanSpec& spec, const std::vector<v1::Profile>& profiles, const Plan& plan,
    const std::shared_ptr<const Calibration>& calibration = nullptr);

// Returns what the cost model predicts for a given plan. The schedule is the plan's, and so are
// batch and largest tensor-parallel degree unless `spec` has them. Space, target and range of
// batches are ignored, so that plans which no search makes can be evaluated too.
//
// INVALID_ARGUMENT (SPEC_INVALID) naming `--batch` or `--micro-batches` if `spec` and the plan have
// different ones, and naming `plan` if it is not a plan for this model and cluster. A plan that
// does not fit in memory is no error: see `Prediction::fits`.
absl::StatusOr<PlanView> EvaluateOffline(
    const v1::PlanSpec& spec, const std::vector<v1::Profile>& profiles, const Plan& plan,
    const std::shared_ptr<const Calibration>& calibration = nullptr);

// Runs every planner on the same question, each under the limits of `spec`. Returns a row for each
// in the order of `PlannerNames`.
absl::StatusOr<std::vector<v1::PlannerComparison>> CompareOffline(
    const v1::PlanSpec& spec, const std::vector<v1::Profile>& profiles,
    const std::shared_ptr<const Calibration>& calibration = nullptr, const SearchWatch& watch = {});

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_OFFLINE_OFFLINE_PLANNER_H_
