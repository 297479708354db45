#include "proto/wire/problem_wire.h"

#include <utility>

#include "base/error.h"
#include "base/status_macros.h"
#include "proto/wire/field_path.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/topology_wire.h"

namespace parplan {

absl::StatusOr<AskedPlan> AskedPlanFromProto(const v1::PlanSpec& spec, absl::string_view field) {
  AskedPlan asked;
  PARPLAN_ASSIGN_OR_RETURN(asked.options,
                           OptionsFromProto(spec.options(), JoinPath(field, "options")));
  PARPLAN_ASSIGN_OR_RETURN(ModelSpec model, ModelFromProto(spec.model(), JoinPath(field, "model")));
  PARPLAN_ASSIGN_OR_RETURN(Topology topology,
                           TopologyFromProto(spec.topology(), JoinPath(field, "topology")));
  asked.model = std::make_shared<const ModelSpec>(std::move(model));
  asked.topology = std::make_shared<const Topology>(std::move(topology));
  asked.global_batch_size = spec.global_batch_size();
  return asked;
}

absl::StatusOr<PlanningProblem> ProblemFor(const AskedPlan& asked, Knowledge knowledge,
                                           absl::string_view field) {
  absl::StatusOr<PlanningProblem> problem =
      PlanningProblem::Create(asked.model, asked.topology, std::move(knowledge),
                              asked.global_batch_size, asked.options.rules);
  if (!problem.ok() && problem.status().code() == absl::StatusCode::kInvalidArgument) {
    return MoveFieldError(problem.status(), "", field, Reason::kSpecInvalid);
  }
  return problem;
}

}  // namespace parplan
