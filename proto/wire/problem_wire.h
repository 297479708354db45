// Conversion of a question of the contract to a problem of the planner.

#ifndef PARPLAN_PROTO_WIRE_PROBLEM_WIRE_H_
#define PARPLAN_PROTO_WIRE_PROBLEM_WIRE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parplan/v1/plan.pb.h"
#include "planner/model/planning_problem.h"
#include "planner/model/profile_snapshot.h"

namespace parplan {

// Returns the problem of `spec` with the given knowledge; `OptionsFromProto` reads planner name and
// limits. INVALID_ARGUMENT (SPEC_INVALID) with the path of the field below `field`: for an empty
// `field` `model.layer_runs[0]`, for `spec` `spec.model.layer_runs[0]`. FAILED_PRECONDITION
// (PROFILE_MISSING) if the profile has another device kind or node size.
absl::StatusOr<PlanningProblem> ProblemFromSpec(const v1::PlanSpec& spec, Knowledge knowledge,
                                                absl::string_view field = "");

// Returns the problem with `rules` instead of `spec.options`, which is ignored: for given plans,
// which may have properties that a search cannot be asked for.
absl::StatusOr<PlanningProblem> ProblemWithRules(const v1::PlanSpec& spec,
                                                 const PlanningRules& rules, Knowledge knowledge,
                                                 absl::string_view field = "");

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_PROBLEM_WIRE_H_
