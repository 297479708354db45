// A question of the contract as values of the planner.
//
//   PARPLAN_ASSIGN_OR_RETURN(const AskedPlan asked, AskedPlanFromProto(request.spec(), "spec"));
//   // Check limits on the values, find the measurements of asked.topology, then:
//   PARPLAN_ASSIGN_OR_RETURN(PlanningProblem problem, ProblemFor(asked, knowledge, "spec"));
//
// The server and offline planning make their problems by it.

#ifndef PARPLAN_PROTO_WIRE_PROBLEM_WIRE_H_
#define PARPLAN_PROTO_WIRE_PROBLEM_WIRE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parplan/v1/plan.pb.h"
#include "planner/model/model_spec.h"
#include "planner/model/planning_problem.h"
#include "planner/model/profile_snapshot.h"
#include "planner/model/topology.h"
#include "proto/wire/rules_wire.h"

namespace parplan {

// A `v1::PlanSpec`, converted and each part checked by itself.
struct AskedPlan {
  PlanningOptions options;
  // Neither is null.
  std::shared_ptr<const ModelSpec> model;
  std::shared_ptr<const Topology> topology;
  // Samples a step; checked by `ProblemFor`.
  int64_t global_batch_size = 0;
};

// Converts options, model and topology, in this order. Returns INVALID_ARGUMENT (SPEC_INVALID) with
// the path of the field below `field` (empty: `model.layer_runs[0]`; `spec`:
// `spec.model.layer_runs[0]`).
absl::StatusOr<AskedPlan> AskedPlanFromProto(const v1::PlanSpec& spec,
                                             absl::string_view field = "");

// Returns the problem of `asked` with the measurements and data sheets of `knowledge`, each of
// which may be null, and its calibration, for which null stands for `Calibration::BuiltIn()`, not
// for `PublishedCalibration`. INVALID_ARGUMENT (SPEC_INVALID) with the path of the field below
// `field`, as in `AskedPlanFromProto`, for what depends on several parts: a batch that is not
// positive or that the micro-batches do not divide, a schedule outside space or target, a precision
// that a device does not multiply, and whatever else `PlanningProblem::Create` refuses.
// FAILED_PRECONDITION (PROFILE_MISSING) if a group's profile is of another device kind or node
// size. Takes topologies of several node groups; callers that cannot plan for them refuse them
// before. REQUIRES: `asked` is from `AskedPlanFromProto`, and `knowledge` has no more groups than
// the topology; aborts otherwise.
absl::StatusOr<PlanningProblem> ProblemFor(const AskedPlan& asked, Knowledge knowledge,
                                           absl::string_view field = "");

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_PROBLEM_WIRE_H_
