#include "clients/cpp/plan_client.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "clients/cpp/retry.h"
#include "clients/cpp/status_from_grpc.h"
#include "clients/cpp/unary.h"

namespace parplan {
namespace {

using PlanStub = v1::PlanService::StubInterface;

}  // namespace

PlanClient::PlanClient(std::shared_ptr<grpc::Channel> channel)
    : stub_(v1::PlanService::NewStub(std::move(channel))) {}

PlanClient::PlanClient(std::unique_ptr<v1::PlanService::StubInterface> stub)
    : stub_(std::move(stub)) {}

absl::StatusOr<v1::ShapePlanResponse> PlanClient::ShapePlan(const v1::ShapePlanRequest& request,
                                                            const CallOptions& options) {
  return CallUnary(*stub_, &PlanStub::ShapePlan, request, options);
}

absl::StatusOr<v1::Plan> PlanClient::CreatePlan(v1::CreatePlanRequest request,
                                                const CallOptions& options) {
  if (request.request_id().empty()) request.set_request_id(MakeUuid());
  return CallUnary(*stub_, &PlanStub::CreatePlan, request, options);
}

absl::StatusOr<v1::Plan> PlanClient::SearchPlan(
    v1::CreatePlanRequest request,
    const std::function<void(const v1::SearchProgress&)>& on_progress, const CallOptions& options) {
  if (request.request_id().empty()) request.set_request_id(MakeUuid());
  // gRPC itself repeats no stream that has said something already.
  return WithRetries(options, [&](const CallOptions& rest) -> absl::StatusOr<v1::Plan> {
    grpc::ClientContext context;
    ApplyCallOptions(rest, context);
    const auto reader = stub_->SearchPlan(&context, request);
    std::optional<v1::Plan> plan;
    v1::SearchPlanResponse response;
    while (reader->Read(&response)) {
      if (response.has_progress() && on_progress) on_progress(response.progress());
      if (response.has_plan()) plan = std::move(*response.mutable_plan());
    }
    const absl::Status status = FromGrpcStatus(reader->Finish());
    if (!status.ok()) return status;
    if (!plan.has_value()) return absl::InternalError("the server ended a search without a plan");
    return *std::move(plan);
  });
}

absl::StatusOr<v1::Plan> PlanClient::GetPlan(const v1::GetPlanRequest& request,
                                             const CallOptions& options) {
  return CallUnary(*stub_, &PlanStub::GetPlan, request, options);
}

absl::StatusOr<v1::ListPlansResponse> PlanClient::ListPlans(const v1::ListPlansRequest& request,
                                                            const CallOptions& options) {
  return CallUnary(*stub_, &PlanStub::ListPlans, request, options);
}

absl::StatusOr<v1::VerifyPlanResponse> PlanClient::VerifyPlan(const v1::VerifyPlanRequest& request,
                                                              const CallOptions& options) {
  return CallUnary(*stub_, &PlanStub::VerifyPlan, request, options);
}

absl::StatusOr<v1::ExportPlanResponse> PlanClient::ExportPlan(const v1::ExportPlanRequest& request,
                                                              const CallOptions& options) {
  return CallUnary(*stub_, &PlanStub::ExportPlan, request, options);
}

absl::StatusOr<v1::Capabilities> PlanClient::GetCapabilities(const CallOptions& options) {
  return CallUnary(*stub_, &PlanStub::GetCapabilities, v1::GetCapabilitiesRequest(), options);
}

}  // namespace parplan
