#include "clients/planctl/commands/given_plan.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/import/megatron_run.h"
#include "clients/import/named_text.h"
#include "clients/planctl/files.h"
#include "clients/planctl/view/plan_view.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/plan_wire.h"

namespace parplan::planctl {
namespace {

// Returns the devices of the cluster; 0 if it has no nodes.
int DeviceCountOf(const v1::PlanSpec& spec) {
  if (spec.topology().node_groups().empty()) return 0;
  const v1::NodeGroup& group = spec.topology().node_groups(0);
  return group.node_count() * group.devices_per_node();
}

// Returns whether `text` is a strategy file of Galvatron, which no other plan file looks like.
bool IsStrategyFile(const std::string& text) {
  return text.find("\"pp_deg\"") != std::string::npos;
}

void NoteAll(const Session& session, const std::vector<std::string>& notes) {
  for (const std::string& note : notes) Note(session, absl::StrCat("note: ", note));
}

}  // namespace

absl::Status RefuseGalvatronFlags(const GalvatronPlanOptions& options) {
  const char* flag = nullptr;
  if (options.micro_batch_count != 0) flag = "--galvatron-micro-batches";
  if (options.ulysses_as_data_parallel) flag = "--ulysses-as-data-parallel";
  if (flag == nullptr) return absl::OkStatus();
  return FieldError(Reason::kSpecInvalid, flag,
                    "is for strategy files of Galvatron, and the plan is none; leave the flag out");
}

absl::StatusOr<GivenPlan> ReadGivenPlan(const Session& session, const std::string& path,
                                        const GalvatronPlanOptions& options,
                                        const v1::PlanSpec& spec) {
  PARPLAN_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  GivenPlan given;
  if (!IsStrategyFile(text)) {
    PARPLAN_ASSIGN_OR_RETURN(const v1::PlanPayload payload, PayloadOfFile(text, path));
    PARPLAN_RETURN_IF_ERROR(RefuseGalvatronFlags(options));
    PARPLAN_ASSIGN_OR_RETURN(given.plan, PlanFromPayload(payload));
    given.runtime_id = payload.runtime_id();
    return given;
  }
  PARPLAN_ASSIGN_OR_RETURN(const ModelSpec model, ModelFromProto(spec.model()));
  GalvatronPlanOptions of_cluster = options;
  if (options.device_count == 0) of_cluster.device_count = DeviceCountOf(spec);
  PARPLAN_ASSIGN_OR_RETURN(GalvatronPlanImport import,
                           ImportGalvatronPlan({path, std::move(text)}, model, of_cluster));
  NoteAll(session, import.notes);
  given.plan = std::move(import.plan);
  return given;
}

absl::Status CheckPlanFile(const std::string& path) {
  PARPLAN_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  if (!IsStrategyFile(text)) return PayloadOfFile(text, path).status();
  return ParseJsonObject({path, std::move(text)}, Reason::kSpecInvalid).status();
}

absl::StatusOr<GivenPlan> ReadMegatronPlan(const Session& session, const std::string& file_or_text,
                                           const ModelFlags& flags, v1::PlanSpec* spec) {
  NamedText file{"--megatron-args", file_or_text};
  if (!absl::StartsWith(file_or_text, "--")) {
    file.name = file_or_text;
    PARPLAN_ASSIGN_OR_RETURN(file.text, ReadFile(file_or_text));
  }
  MegatronRunOptions options;
  options.device_count = DeviceCountOf(*spec);
  options.flags = flags;
  if (!spec->model().layer_runs().empty()) options.model = spec->model();
  PARPLAN_ASSIGN_OR_RETURN(MegatronRunImport import, ImportMegatronRun(file, options));
  NoteAll(session, import.notes);
  *spec->mutable_model() = std::move(import.model);
  return GivenPlan{std::move(import.plan), std::move(import.runtime_id)};
}

}  // namespace parplan::planctl
