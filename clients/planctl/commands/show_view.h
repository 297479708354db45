// How every command that has a plan shows it.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_SHOW_VIEW_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_SHOW_VIEW_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/view/plan_view.h"

namespace parplan::planctl {

// Prints `view` as the session wants it, and writes the page to `report_path`
// unless that is empty.
absl::Status ShowView(const Session& session, const PlanView& view, const std::string& report_path);

// Reads a plan file of ours.
absl::StatusOr<PlanView> ReadView(const std::string& path);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_SHOW_VIEW_H_
