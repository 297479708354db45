// Reads a plan from a file of parplan or of Galvatron, or from arguments of Megatron-LM. `planctl
// evaluate` calls ReadGivenPlan or ReadMegatronPlan, `planctl explain` ReadGivenPlan and
// CheckPlanFile.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_GIVEN_PLAN_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_GIVEN_PLAN_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/import/galvatron_plan.h"
#include "clients/import/model_facts.h"
#include "clients/planctl/commands/command.h"
#include "parplan/v1/plan.pb.h"
#include "planner/model/plan.h"

namespace parplan::planctl {

// A plan that was read from a file, with the runtime it was made for.
struct GivenPlan {
  Plan plan;
  // The runtime that the plan was made for: that of the file, empty for a strategy file of
  // Galvatron and for a file that names none; that of `MegatronRunImport` (megatron_run.h)
  // from ReadMegatronPlan.
  std::string runtime_id;
};

// Returns INVALID_ARGUMENT (SPEC_INVALID) naming the flag of `planctl evaluate` that `options` were
// given by and that has no meaning for a plan that is no strategy file of Galvatron.
absl::Status RefuseGalvatronFlags(const GalvatronPlanOptions& options);

// Reads the file at `path`, `-` for standard input: an envelope, an unsigned plan with or without a
// prediction, or a strategy file of Galvatron, which is any file with the text `"pp_deg"`.
// Signatures are not verified, and whether the plan answers the question of `spec` is not checked.
//
// Only a strategy file reads `spec` and `options`; flags in `options` are refused for other plans
// (RefuseGalvatronFlags). Its layers are those of the model of `spec`, and the number of devices is
// `options.device_count` or, if that is 0, nodes times devices per node of the first node group of
// `spec`, or without one what the file or its name says. Its assumptions are notes on standard
// error, unless `--quiet` is given.
//
// Returns INVALID_ARGUMENT: SPEC_INVALID for a file that can't be read (ReadFile, files.h) or is no
// plan; PAYLOAD_MALFORMED for a plan that breaks a rule (PayloadOfFile, plan_view.h;
// PlanFromPayload, plan_wire.h); SPEC_INVALID for a strategy file that ImportGalvatronPlan refuses,
// or for a model of `spec` that breaks a rule.
absl::StatusOr<GivenPlan> ReadGivenPlan(const Session& session, const std::string& path,
                                        const GalvatronPlanOptions& options,
                                        const v1::PlanSpec& spec);

// Checks that the file is of a form that ReadGivenPlan reads, without the model and the devices
// that its plan may need. Returns INVALID_ARGUMENT: the errors of ReadFile and PayloadOfFile, and
// for a strategy file of Galvatron SPEC_INVALID naming `path` if it is no JSON object.
absl::Status CheckPlanFile(const std::string& path);

// Reads the plan of `file_or_text`: arguments of Megatron-LM if it begins with `--`, else the path
// of a file that ImportMegatronRun reads, `-` for standard input. The number of devices is nodes
// times devices per node of the first node group of `spec`; without one, it is that of a launch
// script, and other files and arguments are an error. The model is that of `spec` or, if that has
// no layers, is read from the arguments and `flags` into `spec`. Notes go to standard error, unless
// `--quiet` is given.
//
// Returns INVALID_ARGUMENT (SPEC_INVALID): the errors of ReadFile (files.h) and ImportMegatronRun
// (clients/import/megatron_run.h); `spec`, which is not null, is then unchanged.
absl::StatusOr<GivenPlan> ReadMegatronPlan(const Session& session, const std::string& file_or_text,
                                           const ModelFlags& flags, v1::PlanSpec* spec);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_GIVEN_PLAN_H_
