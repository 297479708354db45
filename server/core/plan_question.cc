#include "server/core/plan_question.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "exports/exporters.h"
#include "planner/find_plan.h"
#include "proto/wire/digest.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/field_path.h"
#include "proto/wire/problem_wire.h"
#include "proto/wire/version.h"
#include "server/core/request_rules.h"

namespace parplan {
namespace {

// Appends a text with its length, so that no two sequences of texts give the same bytes.
void AppendText(std::string* out, absl::string_view text) {
  absl::StrAppend(out, text.size(), ":", text, "\n");
}

// Returns the ids of model and layers: the answer contains them, and the digest of the model does
// not.
std::string NamesText(const ModelSpec& model) {
  std::string text;
  AppendText(&text, model.model_id());
  for (const ModelLayerRun& run : model.layer_runs()) {
    AppendText(&text, model.layer_definitions()[run.definition_index].layer_definition_id);
    absl::StrAppend(&text, run.layer_count, "\n");
  }
  return text;
}

absl::StatusOr<absl::Duration> ReadTimeToLive(const v1::CreatePlanRequest& request,
                                              const Limits& limits) {
  if (!request.has_time_to_live()) return limits.default_time_to_live;
  PARPLAN_ASSIGN_OR_RETURN(const absl::Duration asked,
                           DurationFromProto(request.time_to_live(), "time_to_live"));
  if (asked <= absl::ZeroDuration()) {
    return FieldError(Reason::kSpecInvalid, "time_to_live", "must be above 0");
  }
  return std::min(asked, limits.max_time_to_live);
}

// Checks what does not depend on any measurement.
absl::Status CheckAsked(const AskedPlan& asked, const std::string& cluster, const Limits& limits) {
  PARPLAN_RETURN_IF_ERROR(CheckPlannerName(asked.options.planner, "spec.options"));
  PARPLAN_RETURN_IF_ERROR(CheckModelSize(*asked.model, limits, "spec.model"));
  const Topology& topology = *asked.topology;
  if (topology.cluster() != cluster) {
    return FieldError(
        Reason::kSpecInvalid, "parent",
        absl::StrCat("must be clusters/", topology.cluster(), ", the cluster of spec.topology"));
  }
  if (topology.node_groups().size() != 1) {
    return FieldError(Reason::kSpecInvalid, "spec.topology.node_groups",
                      "must have exactly one group; plan for each kind of node by itself");
  }
  if (topology.device_count() > limits.max_device_count) {
    return FieldError(Reason::kSpecInvalid, "spec.topology.node_groups",
                      absl::StrCat("must have at most ", limits.max_device_count,
                                   " devices (Capabilities.max_device_count)"));
  }
  return CheckModelRuns(asked.options.rules.target, *asked.model, "spec");
}

}  // namespace

std::string RequestKey(const v1::CreatePlanRequest& request, absl::string_view owner) {
  std::string key;
  AppendText(&key, owner);
  AppendText(&key, request.parent());
  AppendText(&key, request.job_id());
  absl::StrAppend(&key, request.has_time_to_live(), " ", request.time_to_live().seconds(), " ",
                  request.time_to_live().nanos(), "\n");
  request.spec().AppendToString(&key);
  return key;
}

absl::Status CheckPlannerName(absl::string_view planner, absl::string_view field) {
  const std::vector<std::string>& names = PlannerNames();
  if (std::find(names.begin(), names.end(), planner) != names.end()) return absl::OkStatus();
  return FieldError(Reason::kSpecInvalid, JoinPath(field, "planner"),
                    absl::StrCat("must be one of ", absl::StrJoin(names, ", ")));
}

absl::Status CheckModelSize(const ModelSpec& model, const Limits& limits, absl::string_view field) {
  if (model.layer_count() <= limits.max_layer_count) return absl::OkStatus();
  return FieldError(Reason::kSpecInvalid, JoinPath(field, "layer_runs"),
                    absl::StrCat("must have at most ", limits.max_layer_count,
                                 " layers (Capabilities.max_layer_count)"));
}

absl::Status CheckModelRuns(Target target, const ModelSpec& model, absl::string_view field) {
  return MoveFieldError(CheckModelOfTarget(target, model), "", field, Reason::kSpecInvalid);
}

absl::StatusOr<ClusterName> ReadParent(const v1::CreatePlanRequest& request) {
  PARPLAN_ASSIGN_OR_RETURN(ClusterName parent, ClusterName::Parse(request.parent()));
  PARPLAN_RETURN_IF_ERROR(CheckRequestId(request.request_id(), false, "request_id"));
  return parent;
}

absl::StatusOr<std::shared_ptr<const PlanQuestion>> ReadQuestion(
    const CallContext& context, const v1::CreatePlanRequest& request, const ClusterName& parent,
    std::string request_key, KnowledgeKeeper& knowledge, const Limits& limits) {
  if (static_cast<int64_t>(request_key.size()) > limits.max_request_bytes) {
    return MakeError(absl::StatusCode::kResourceExhausted, Reason::kUploadTooLarge,
                     absl::StrCat("the request has ", request_key.size(), " bytes; at most ",
                                  limits.max_request_bytes, " are taken"),
                     {{"limit", absl::StrCat(limits.max_request_bytes)},
                      {"value", absl::StrCat(request_key.size())}});
  }
  PARPLAN_RETURN_IF_ERROR(CheckCharacterCount(request.job_id(), kMaxJobIdCharacters, "job_id"));
  PARPLAN_ASSIGN_OR_RETURN(const absl::Duration time_to_live, ReadTimeToLive(request, limits));
  if (!request.has_spec()) return FieldError(Reason::kSpecInvalid, "spec", "is required");
  PARPLAN_ASSIGN_OR_RETURN(AskedPlan asked, AskedPlanFromProto(request.spec(), "spec"));
  PARPLAN_RETURN_IF_ERROR(CheckAsked(asked, parent.cluster, limits));

  // Read before the snapshot: if a profile arrives between the two, the answer is cached under a
  // version that no later question has.
  PARPLAN_ASSIGN_OR_RETURN(KnowledgeVersion version, knowledge.Version(parent.cluster));
  PARPLAN_ASSIGN_OR_RETURN(
      JobKnowledge known,
      knowledge.Find(*asked.topology, version, asked.options.rules, "spec.topology"));
  PARPLAN_ASSIGN_OR_RETURN(PlanningProblem problem,
                           ProblemFor(asked, std::move(known.knowledge), "spec"));

  PlanningOptions options = std::move(asked.options);
  options.search_time_limit = std::min(
      options.search_time_limit.value_or(limits.max_search_duration), limits.max_search_duration);
  auto question =
      std::make_shared<PlanQuestion>(PlanQuestion{.caller = context.caller(),
                                                  .call_id = context.request_id(),
                                                  .cluster = parent.cluster,
                                                  .job_id = request.job_id(),
                                                  .request_id = request.request_id(),
                                                  .time_to_live = time_to_live,
                                                  .spec = request.spec(),
                                                  .options = std::move(options),
                                                  .problem = std::move(problem),
                                                  .version = std::move(version),
                                                  .newest_measurement = known.newest_measurement,
                                                  .model_digest = {},
                                                  .topology_digest = {},
                                                  .profile_digest = {},
                                                  .hardware_digest = {},
                                                  .calibration_digest = {},
                                                  .answer_key = {},
                                                  .flight_key = {},
                                                  .binding_key = {},
                                                  .request_key = std::move(request_key)});
  question->model_digest = ModelDigest(question->problem.model());
  question->topology_digest = TopologyDigest(question->problem.topology());
  question->profile_digest = question->problem.profile(kFirstGroup).digest();
  question->hardware_digest = std::move(known.hardware_digest);
  question->calibration_digest = std::move(known.calibration_digest);
  const std::string plan_key = PlanKey(
      question->model_digest, question->topology_digest, question->profile_digest,
      question->problem.global_batch_size(), question->problem.rules(), question->options.planner,
      kVersion, question->hardware_digest, question->calibration_digest);
  question->answer_key = absl::StrCat(plan_key, "\n", question->options.compare_baselines, "\n",
                                      NamesText(question->problem.model()));
  if (question->options.wants_robust_plan) {
    absl::StrAppend(&question->answer_key, "\nrobust ", question->options.robust_alternative_count);
  }
  if (question->options.wanted_gap_ratio.has_value()) {
    // The digits identify the number.
    absl::StrAppend(&question->answer_key, "\ngap ",
                    absl::StrFormat("%.17g", *question->options.wanted_gap_ratio));
  }
  question->flight_key =
      absl::StrCat(question->answer_key, question->options.max_state_count, "\n",
                   absl::ToInt64Nanoseconds(*question->options.search_time_limit));
  std::string binding = absl::StrCat("parplan binding 1\n", question->answer_key);
  AppendText(&binding, question->job_id);
  absl::StrAppend(&binding, absl::ToInt64Nanoseconds(question->time_to_live));
  // Plans of a server that restricts no caller belong to all.
  const std::string& owner = question->caller->owner();
  if (!owner.empty()) AppendText(&binding, owner);
  question->binding_key = Sha256Hex(binding);
  return question;
}

}  // namespace parplan
