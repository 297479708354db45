// The methods of `PlanCore` that need no search.

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "exports/exporters.h"
#include "exports/verified_export.h"
#include "proto/envelope/verdict.h"
#include "proto/envelope/verifier.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/resource_name.h"
#include "proto/wire/version.h"
#include "server/core/plan_core.h"
#include "server/core/stored_message.h"

namespace parplan {
namespace {

VerifyOutcome OutcomeOf(v1::VerifyPlanResponse::Verdict verdict) {
  switch (verdict) {
    case v1::VerifyPlanResponse::VALID:
      return VerifyOutcome::kValid;
    case v1::VerifyPlanResponse::BAD_SIGNATURE:
      return VerifyOutcome::kBadSignature;
    case v1::VerifyPlanResponse::EXPIRED:
      return VerifyOutcome::kExpired;
    case v1::VerifyPlanResponse::WRONG_AUDIENCE:
      return VerifyOutcome::kWrongAudience;
    case v1::VerifyPlanResponse::WRONG_TOPOLOGY:
      return VerifyOutcome::kWrongTopology;
    default:
      return VerifyOutcome::kMalformed;
  }
}

}  // namespace

absl::StatusOr<v1::Plan> PlanCore::GetPlan(const v1::GetPlanRequest& request) {
  PARPLAN_ASSIGN_OR_RETURN(const PlanName name, PlanName::Parse(request.name()));
  PARPLAN_ASSIGN_OR_RETURN(const PlanRecord record, dependencies_.store.GetPlan(name.ToString()));
  return ParseStoredPlan(record);
}

absl::StatusOr<v1::ListPlansResponse> PlanCore::ListPlans(const v1::ListPlansRequest& request,
                                                          const Caller& caller) {
  PARPLAN_ASSIGN_OR_RETURN(const ClusterName parent, ClusterName::Parse(request.parent()));
  const PageRequest wanted{request.page_size(), request.page_token()};
  const std::optional<OwnPlans> own = caller.PlansFor("ListPlans", parent.cluster);
  PARPLAN_ASSIGN_OR_RETURN(const Page<PlanRecord> page,
                           own.has_value()
                               ? dependencies_.store.ListOwnPlans(
                                     parent.cluster, PlanScope{own->owner, own->job_ids}, wanted)
                               : dependencies_.store.ListPlans(parent.cluster, wanted));
  v1::ListPlansResponse response;
  for (const PlanRecord& record : page.records) {
    PARPLAN_ASSIGN_OR_RETURN(v1::Plan plan, ParseStoredPlan(record));
    plan.clear_spec();
    plan.clear_alternatives();
    plan.clear_memory_front();
    *response.add_plans() = std::move(plan);
  }
  response.set_next_page_token(page.next_page_token);
  return response;
}

absl::StatusOr<v1::Plan> PlanCore::PlanToExport(const v1::ExportPlanRequest& request) {
  if (request.source_case() == v1::ExportPlanRequest::kName) {
    if (request.has_model()) {
      return FieldError(Reason::kSpecInvalid, "model",
                        "must be absent with `name`: the server knows the model of its plans");
    }
    v1::GetPlanRequest get;
    get.set_name(request.name());
    return GetPlan(get);
  }
  if (request.source_case() != v1::ExportPlanRequest::kSignedPlan) {
    return FieldError(Reason::kSpecInvalid, "name", "is required, or `signed_plan` with `model`");
  }
  if (!request.has_model()) {
    return FieldError(Reason::kSpecInvalid, "model", "is required with `signed_plan`");
  }
  v1::Plan plan;
  *plan.mutable_signed_plan() = request.signed_plan();
  *plan.mutable_spec()->mutable_model() = request.model();
  return plan;
}

absl::StatusOr<v1::ExportPlanResponse> PlanCore::ExportPlan(const v1::ExportPlanRequest& request) {
  PARPLAN_ASSIGN_OR_RETURN(const PlanExporter* const exporter,
                           FindExporter(request.target(), "target"));
  PARPLAN_ASSIGN_OR_RETURN(const v1::Plan plan, PlanToExport(request));
  const absl::Time now = dependencies_.clock.Now();
  // Looks whether another program revoked keys.
  (void)dependencies_.keys.TrustVersion(now);
  PARPLAN_ASSIGN_OR_RETURN(
      const VerifiedPlan verified,
      dependencies_.keys.Verifier()->Verify(plan.signed_plan(), ExpectedAudience(), now));
  PARPLAN_ASSIGN_OR_RETURN(const ModelSpec model, ModelFromProto(plan.spec().model()));
  const int max_layer_count = dependencies_.limits.max_layer_count;
  if (model.layer_count() > max_layer_count) {
    return MakeError(absl::StatusCode::kResourceExhausted, Reason::kUploadTooLarge,
                     absl::StrCat("model.layer_runs: hold ", model.layer_count(),
                                  " layers; this server takes at most ", max_layer_count),
                     {{"field", "model.layer_runs"}});
  }
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<ExportedFile> files,
                           ExportVerifiedPlan(*exporter, verified, model));
  size_t bytes = 0;
  v1::ExportPlanResponse response;
  for (const ExportedFile& file : files) {
    bytes += file.name.size() + file.text.size();
    v1::ExportedFile& message = *response.add_files();
    message.set_name(file.name);
    message.set_content(file.text);
  }
  if (bytes > kMaxExportBytes) {
    return MakeError(absl::StatusCode::kResourceExhausted, Reason::kUploadTooLarge,
                     absl::StrCat("the files have ", bytes, " bytes, and an answer at most ",
                                  kMaxExportBytes, "; use planctl export"));
  }
  return response;
}

v1::VerifyPlanResponse PlanCore::VerifyPlan(const v1::VerifyPlanRequest& request) {
  ExpectedAudience expected;
  expected.cluster = request.cluster();
  expected.job_id = request.job_id();
  expected.node_name = request.node_name();
  expected.topology_digest = request.topology_digest();
  const absl::Time now = dependencies_.clock.Now();
  (void)dependencies_.keys.TrustVersion(now);
  const absl::StatusOr<VerifiedPlan> verified =
      dependencies_.keys.Verifier()->Verify(request.signed_plan(), expected, now);
  v1::VerifyPlanResponse response;
  response.set_verdict(VerdictOf(verified.status()));
  if (verified.ok()) {
    response.set_detail("the plan is signed by a trusted key, in time and for this audience");
    response.set_key_id(verified->key_id());
  } else {
    response.set_detail(std::string(verified.status().message()));
    response.set_key_id(SigningKeyIdOf(verified.status()));
  }
  dependencies_.observer.PlanVerified(OutcomeOf(response.verdict()));
  return response;
}

v1::Capabilities PlanCore::GetCapabilities() const {
  const Limits& limits = dependencies_.limits;
  v1::Capabilities capabilities;
  capabilities.set_server_version(kVersion);
  capabilities.add_api_versions("parplan.v1");
  for (const std::string& planner : PlannerNames()) capabilities.add_planners(planner);
  for (const std::string& target : ExportTargets()) capabilities.add_export_targets(target);
  capabilities.set_max_layer_count(limits.max_layer_count);
  capabilities.set_max_device_count(limits.max_device_count);
  capabilities.set_max_offer_count(limits.max_offer_count);
  capabilities.set_max_upload_bytes(limits.max_upload_bytes);
  capabilities.set_max_request_bytes(limits.max_request_bytes);
  capabilities.set_max_queue_length(limits.max_queue_length);
  *capabilities.mutable_max_search_duration() = DurationToProto(limits.max_search_duration);
  *capabilities.mutable_max_time_to_live() = DurationToProto(limits.max_time_to_live);
  capabilities.set_max_window_count(limits.max_window_count);
  capabilities.set_max_agent_count(limits.max_agent_count);
  capabilities.set_max_lease_node_count(limits.max_lease_node_count);
  *capabilities.mutable_max_lease_duration() = DurationToProto(limits.max_lease_duration);
  *capabilities.mutable_verification_keys() =
      dependencies_.keys.Bundle(dependencies_.clock.Now()).ToProto();
  return capabilities;
}

}  // namespace parplan
