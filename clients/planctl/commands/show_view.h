// Shows the plan of a command: `planctl plan`, `evaluate` and `explain` call `ShowView`, `explain`
// and `trace` read a file by `ReadView`.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_SHOW_VIEW_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_SHOW_VIEW_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/view/plan_view.h"

namespace parplan::planctl {

// Replaces the file `report_path` by the HTML page, unless that is empty; `-` is standard output.
// Then prints `view` as JSON if the session says so, else as text, which names the report. Returns
// the errors of WriteFile (files.h), and INTERNAL if standard output fails.
absl::Status ShowView(const Session& session, const PlanView& view, const std::string& report_path);

// Reads a plan file of parplan: an envelope, whose signature is not verified, or an unsigned plan.
// `-` is standard input. Returns the errors of ReadFile (files.h) and ViewOfFile (plan_view.h), all
// INVALID_ARGUMENT.
absl::StatusOr<PlanView> ReadView(const std::string& path);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_SHOW_VIEW_H_
