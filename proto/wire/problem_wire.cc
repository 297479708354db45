#include "proto/wire/problem_wire.h"

#include <utility>

#include "base/error.h"
#include "base/status_macros.h"
#include "planner/model/model_spec.h"
#include "planner/model/topology.h"
#include "proto/wire/field_path.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/rules_wire.h"
#include "proto/wire/topology_wire.h"

namespace parplan {

absl::StatusOr<PlanningProblem> ProblemFromSpec(const v1::PlanSpec& spec, Knowledge knowledge,
                                                absl::string_view field) {
  PARPLAN_ASSIGN_OR_RETURN(const PlanningOptions options,
                           OptionsFromProto(spec.options(), JoinPath(field, "options")));
  return ProblemWithRules(spec, options.rules, std::move(knowledge), field);
}

absl::StatusOr<PlanningProblem> ProblemWithRules(const v1::PlanSpec& spec,
                                                 const PlanningRules& rules, Knowledge knowledge,
                                                 absl::string_view field) {
  PARPLAN_ASSIGN_OR_RETURN(ModelSpec model, ModelFromProto(spec.model(), JoinPath(field, "model")));
  PARPLAN_ASSIGN_OR_RETURN(Topology topology,
                           TopologyFromProto(spec.topology(), JoinPath(field, "topology")));
  absl::StatusOr<PlanningProblem> problem =
      PlanningProblem::Create(std::make_shared<const ModelSpec>(std::move(model)),
                              std::make_shared<const Topology>(std::move(topology)),
                              std::move(knowledge), spec.global_batch_size(), rules);
  if (!problem.ok() && problem.status().code() == absl::StatusCode::kInvalidArgument) {
    return MoveFieldError(problem.status(), "", field, Reason::kSpecInvalid);
  }
  return problem;
}

}  // namespace parplan
