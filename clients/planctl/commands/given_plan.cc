#include "clients/planctl/commands/given_plan.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "clients/planctl/files.h"
#include "clients/planctl/view/plan_view.h"
#include "proto/wire/model_wire.h"

namespace parplan::planctl {

absl::StatusOr<Plan> ReadGivenPlan(const Session& session, const std::string& path,
                                   const GalvatronPlanOptions& options, const v1::PlanSpec& spec) {
  PARPLAN_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  if (text.find("\"pp_deg\"") == std::string::npos) {
    PARPLAN_ASSIGN_OR_RETURN(PlanView view, ViewOfFile(text, path));
    return std::move(view.plan);
  }
  PARPLAN_ASSIGN_OR_RETURN(const ModelSpec model, ModelFromProto(spec.model()));
  GalvatronPlanOptions of_cluster = options;
  if (options.device_count == 0 && !spec.topology().node_groups().empty()) {
    const v1::NodeGroup& group = spec.topology().node_groups(0);
    of_cluster.device_count = group.node_count() * group.devices_per_node();
  }
  PARPLAN_ASSIGN_OR_RETURN(GalvatronPlanImport import,
                           ImportGalvatronPlan({path, std::move(text)}, model, of_cluster));
  for (const std::string& note : import.notes) Note(session, absl::StrCat("note: ", note));
  return std::move(import.plan);
}

}  // namespace parplan::planctl
