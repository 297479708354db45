// Reads a plan from a file of parplan or of Galvatron.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_GIVEN_PLAN_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_GIVEN_PLAN_H_

#include <string>

#include "absl/status/statusor.h"
#include "clients/import/galvatron_plan.h"
#include "clients/planctl/commands/command.h"
#include "parplan/v1/plan.pb.h"
#include "planner/model/plan.h"

namespace parplan::planctl {

// Reads an envelope, an unsigned plan, or a strategy file of Galvatron. A strategy file takes its
// layers from the model of `spec`, and its devices from the cluster unless `options` names others;
// what was assumed about it is noted on standard error. Signatures are not verified. Returns
// INVALID_ARGUMENT: the errors of ReadFile (files.h), ViewOfFile (plan_view.h), and for a strategy
// file of ImportGalvatronPlan and of the model of `spec`.
absl::StatusOr<Plan> ReadGivenPlan(const Session& session, const std::string& path,
                                   const GalvatronPlanOptions& options, const v1::PlanSpec& spec);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_GIVEN_PLAN_H_
