// A question of the contract as a problem of the planner.

#ifndef PARPLAN_PROTO_WIRE_PROBLEM_WIRE_H_
#define PARPLAN_PROTO_WIRE_PROBLEM_WIRE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parplan/v1/plan.pb.h"
#include "planner/model/planning_problem.h"
#include "planner/model/profile_snapshot.h"

namespace parplan {

// The problem of `spec` with what `knowledge` has; planner name and
// limits are read by `OptionsFromProto`. INVALID_ARGUMENT (SPEC_INVALID) with
// the path of the field below `field` (empty: `model.layer_runs[0]`; `spec`:
// `spec.model.layer_runs[0]`). FAILED_PRECONDITION (PROFILE_MISSING) when
// the profile is of another device kind or node size.
absl::StatusOr<PlanningProblem> ProblemFromSpec(const v1::PlanSpec& spec, Knowledge knowledge,
                                                absl::string_view field = "");

// The same with `rules` in the place of those of `spec.options`, which is not
// read: for plans that are given and may be what no search may ask for.
absl::StatusOr<PlanningProblem> ProblemWithRules(const v1::PlanSpec& spec,
                                                 const PlanningRules& rules, Knowledge knowledge,
                                                 absl::string_view field = "");

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_PROBLEM_WIRE_H_
