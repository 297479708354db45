// Reads a plan from a file of parplan or of Galvatron, or from arguments of Megatron-LM. `planctl
// evaluate` and `explain` call both.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_GIVEN_PLAN_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_GIVEN_PLAN_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/import/galvatron_plan.h"
#include "clients/planctl/commands/command.h"
#include "parplan/v1/plan.pb.h"
#include "planner/model/plan.h"

namespace parplan::planctl {

struct GivenPlan {
  Plan plan;
  // The runtime that the plan was made for; empty if the file names none.
  std::string runtime_id;
};

// Reads an envelope, an unsigned plan with or without a prediction, or a strategy file of
// Galvatron. A strategy file takes its layers from the model of `spec`, and its devices from the
// first node group of the cluster unless `options` names others; what was assumed about it is noted
// on standard error. Signatures are not verified. Returns INVALID_ARGUMENT: the errors of ReadFile
// (files.h), PayloadOfFile (plan_view.h) and PlanFromPayload (plan_wire.h), and for a strategy file
// of ImportGalvatronPlan and of the model of `spec`.
absl::StatusOr<GivenPlan> ReadGivenPlan(const Session& session, const std::string& path,
                                        const GalvatronPlanOptions& options,
                                        const v1::PlanSpec& spec);

// Checks that the file is of a form that ReadGivenPlan reads, without the model and the devices
// that its plan may need. Returns INVALID_ARGUMENT: the errors of ReadFile and PayloadOfFile, and
// for a strategy file of Galvatron SPEC_INVALID naming `path` if it is no JSON object.
absl::Status CheckPlanFile(const std::string& path);

// Reads the plan of `file_or_text`: arguments of Megatron-LM if it begins with `--`, else the path
// of a file that ImportMegatronRun reads. The devices are those of the first node group of `spec`;
// the model is that of `spec` or, if that has no layers, is read from the arguments into `spec`.
// Notes go to standard error. Returns INVALID_ARGUMENT: the errors of ReadFile and
// ImportMegatronRun.
absl::StatusOr<GivenPlan> ReadMegatronPlan(const Session& session, const std::string& file_or_text,
                                           v1::PlanSpec* spec);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_GIVEN_PLAN_H_
