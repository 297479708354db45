#include "clients/planctl/view/plan_view.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/planctl/file_kind.h"
#include "clients/planctl/view/duration_seconds.h"
#include "planner/model/runtime_traits.h"
#include "proto/envelope/envelope_json.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/json_file.h"
#include "proto/wire/plan_wire.h"

namespace parplan::planctl {
namespace {

std::string KeyIds(const v1::SignedPlan& signed_plan) {
  return absl::StrJoin(signed_plan.signatures(), ", ",
                       [](std::string* out, const v1::Signature& signature) {
                         absl::StrAppend(out, signature.key_id().substr(0, 16));
                       });
}

absl::StatusOr<v1::PlanPayload> PayloadOfEnvelope(const v1::SignedPlan& signed_plan) {
  v1::PlanPayload payload;
  if (!payload.ParseFromString(signed_plan.payload())) {
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kPayloadMalformed,
                     "the envelope holds no plan; ask for it again",
                     {{"payloadType", signed_plan.payload_type()}});
  }
  return payload;
}

// Reads a plan that is in no envelope.
absl::StatusOr<v1::PlanPayload> PayloadOfJson(absl::string_view text, const std::string& path) {
  v1::PlanPayload payload;
  const absl::Status parsed = ParseJson(text, path, &payload);
  if (!parsed.ok()) return NameKind(parsed, text, path, FileKind::kPlan);
  return payload;
}

absl::StatusOr<PlanView> ViewOfEnvelope(const v1::SignedPlan& signed_plan) {
  PARPLAN_ASSIGN_OR_RETURN(const v1::PlanPayload payload, PayloadOfEnvelope(signed_plan));
  PARPLAN_ASSIGN_OR_RETURN(PlanView view, ViewOfPayload(payload));
  view.signature =
      absl::StrCat("signed by ", KeyIds(signed_plan), " (not checked here: planctl verify does)");
  return view;
}

// `field` is the place of the message, for errors about its numbers.
absl::StatusOr<PlanBeside> RivalFromProto(const v1::RivalPlan& message, const std::string& field,
                                          int device_count) {
  v1::PlanPayload payload;
  payload.set_device_count(device_count);
  payload.set_global_batch_size(message.global_batch_size());
  payload.set_micro_batch_count(message.micro_batch_count());
  payload.set_schedule(message.schedule());
  payload.set_virtual_stage_count(message.virtual_stage_count());
  payload.set_micro_batch_group_size(message.micro_batch_group_size());
  *payload.mutable_stages() = message.stages();
  PlanBeside rival;
  PARPLAN_ASSIGN_OR_RETURN(rival.plan, PlanFromPayload(payload));
  PARPLAN_ASSIGN_OR_RETURN(
      rival.step, SecondsFromProto(message.step_duration(), absl::StrCat(field, ".step_duration"),
                                   Reason::kPayloadMalformed));
  if (message.step_seconds() > 0.0) rival.step = Seconds::Of(message.step_seconds());
  rival.samples_per_second = message.samples_per_second();
  rival.peak_memory = Bytes::Of(message.peak_memory_bytes());
  return rival;
}

std::string DevicesOf(const v1::ClusterTopology& topology) {
  if (topology.node_groups().empty()) return "";
  const v1::NodeGroup& group = topology.node_groups(0);
  return absl::StrCat(group.node_count() * group.devices_per_node(), " × ", group.device_kind());
}

}  // namespace

absl::StatusOr<PlanView> ViewOfPayload(const v1::PlanPayload& payload) {
  PlanView view;
  view.payload = payload;
  PARPLAN_ASSIGN_OR_RETURN(view.plan, PlanFromPayload(payload));
  if (!payload.has_prediction()) {
    return FieldError(Reason::kPayloadMalformed, "prediction",
                      "is missing: this is a plan that was only imported; planctl evaluate "
                      "predicts it");
  }
  PARPLAN_ASSIGN_OR_RETURN(view.prediction, PredictionFromProto(payload.prediction()));
  PARPLAN_ASSIGN_OR_RETURN(view.search, SearchSummaryFromProto(payload.search()));
  // Virtual stages share the entry of their devices.
  const auto depth = static_cast<size_t>(view.plan.pipeline_parallel_degree());
  if (view.prediction.stages.size() != depth || view.prediction.step <= Seconds()) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, Reason::kPayloadMalformed,
        absl::StrCat("prediction: must have a step time and one entry a stage of the pipeline, ",
                     depth, "; it has ", view.prediction.stages.size()),
        {{"field", "prediction.stages"}});
  }
  return view;
}

PlanBeside RivalOf(const PredictedPlan& rival) {
  return {rival.plan, rival.prediction.step, rival.prediction.samples_per_second,
          rival.prediction.peak_memory};
}

absl::StatusOr<PlanView> ViewOfPlan(const v1::Plan& plan) {
  PARPLAN_ASSIGN_OR_RETURN(PlanView view, ViewOfEnvelope(plan.signed_plan()));
  view.comparisons.assign(plan.comparisons().begin(), plan.comparisons().end());
  view.model_id = plan.spec().model().model_id();
  view.devices = DevicesOf(plan.spec().topology());
  view.from_cache = plan.from_cache();
  view.cpu_seconds = SecondsOf(plan.search().cpu_duration());
  view.wall_seconds = SecondsOf(plan.search().wall_duration());
  for (int i = 0; i < plan.alternatives_size(); ++i) {
    PARPLAN_ASSIGN_OR_RETURN(PlanBeside entry, RivalFromProto(plan.alternatives(i),
                                                              absl::StrCat("alternatives[", i, "]"),
                                                              view.plan.device_count));
    view.alternatives.push_back(std::move(entry));
  }
  for (int i = 0; i < plan.memory_front_size(); ++i) {
    PARPLAN_ASSIGN_OR_RETURN(PlanBeside entry, RivalFromProto(plan.memory_front(i),
                                                              absl::StrCat("memory_front[", i, "]"),
                                                              view.plan.device_count));
    view.memory_front.push_back(std::move(entry));
  }
  view.notes.assign(plan.notes().begin(), plan.notes().end());
  return view;
}

absl::StatusOr<PlanView> ViewOfFile(absl::string_view text, const std::string& path) {
  if (text.find("\"payloadType\"") != absl::string_view::npos) {
    PARPLAN_ASSIGN_OR_RETURN(const v1::SignedPlan envelope, EnvelopeFromJson(text));
    return ViewOfEnvelope(envelope);
  }
  PARPLAN_ASSIGN_OR_RETURN(const v1::PlanPayload payload, PayloadOfJson(text, path));
  return ViewOfPayload(payload);
}

absl::StatusOr<v1::PlanPayload> PayloadOfFile(absl::string_view text, const std::string& path) {
  if (text.find("\"payloadType\"") != absl::string_view::npos) {
    PARPLAN_ASSIGN_OR_RETURN(const v1::SignedPlan envelope, EnvelopeFromJson(text));
    return PayloadOfEnvelope(envelope);
  }
  return PayloadOfJson(text, path);
}

v1::PlanPayload GivenPayload(const Plan& plan, const ModelSpec& model,
                             absl::string_view runtime_id) {
  v1::PlanPayload payload;
  FillPayload(plan, Prediction(), SearchSummary(), model, &payload);
  payload.clear_prediction();
  payload.clear_search();
  payload.set_planner(kGivenPlanner);
  payload.set_runtime_id(std::string(runtime_id));
  return payload;
}

std::string PlanHtml(const PlanView& view) {
  ReportInput input;
  const std::string model = view.model_id.empty() ? "A plan" : view.model_id;
  input.title = view.devices.empty()
                    ? absl::StrCat(model, " on ", view.plan.device_count, " devices")
                    : absl::StrCat(model, " on ", view.devices);
  input.planner = view.payload.planner();
  input.plan = view.plan;
  input.prediction = view.prediction;
  input.search = view.search;
  if (const RuntimeTraits* runtime = FindRuntime(view.payload.runtime_id()); runtime != nullptr) {
    input.blocking_messages = runtime->blocking_pipeline_messages;
    input.serial_messages = runtime->serial_pipeline_messages;
  }
  for (const v1::StagePlan& stage : view.payload.stages()) {
    for (const v1::StageLayerRun& run : stage.layer_runs()) {
      for (int i = 0; i < run.layer_count(); ++i) {
        input.layer_names.push_back(run.layer_definition_id());
      }
    }
  }
  for (const v1::PlannerComparison& rival : view.comparisons) {
    ReportRival row;
    row.planner = rival.planner();
    row.feasible = rival.feasible();
    row.step = Seconds::Of(SecondsOf(rival.step_duration()));
    row.samples_per_second = rival.samples_per_second();
    row.peak_memory = Bytes::Of(rival.peak_memory_bytes());
    row.gist = rival.gist();
    row.smallest_device_memory = Bytes::Of(rival.smallest_device_memory_bytes());
    row.stopped_early = rival.stopped_early();
    input.rivals.push_back(std::move(row));
  }
  input.alternatives = view.alternatives;
  input.memory_front = view.memory_front;
  input.notes = view.notes;
  const v1::PlanPayload& payload = view.payload;
  const auto add = [&input](const char* label, const std::string& text) {
    if (!text.empty()) input.facts.push_back({label, text});
  };
  add("plan", payload.plan());
  add("planner", absl::StrCat(payload.planner(), ", release ", payload.planner_version()));
  add("signature", view.signature.empty() ? "not signed" : view.signature);
  add("job", payload.job_id());
  add("nodes", absl::StrJoin(payload.node_names(), ", "));
  add("model digest", payload.model_digest());
  add("topology digest", payload.topology_digest());
  add("profile digest", payload.profile_digest());
  add("data sheet digest", payload.hardware_digest());
  add("calibration digest", payload.calibration_digest());
  add("runtime", payload.runtime_id());
  return RenderReport(input);
}

}  // namespace parplan::planctl
