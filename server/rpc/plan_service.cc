// `PlanService` of services.h.

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/plan_core.h"
#include "server/core/shape_core.h"
#include "server/rpc/search_call.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_call.h"

namespace parplan {
namespace {

// Runs `ask`, which answers the call in its own time, on a thread that may wait; answers with the
// refusal if the caller may not make the call. gRPC keeps the request until the answer.
template <typename Response, typename Request, typename AskCore>
void Ask(const RpcContext& rpc, const std::shared_ptr<UnaryCall<Response>>& call,
         const Request& request, AskCore ask) {
  if (!call->admission().ok()) {
    call->End(call->admission());
    return;
  }
  rpc.question_pool.Run([call, &request, ask = std::move(ask)] {
    const absl::Status asked = WithoutExceptions([&] {
      if (const absl::Status allowed = call->Authorize(request); !allowed.ok()) return allowed;
      ask();
      return absl::OkStatus();
    });
    if (!asked.ok()) call->End(asked);
  });
}

}  // namespace

PlanService::PlanService(const RpcContext& rpc) : BoundedService(rpc.requests), rpc_(rpc) {
  Bound("ShapePlan", this, &PlanService::ShapePlan);
  Bound("CreatePlan", this, &PlanService::CreatePlan);
  Bound("SearchPlan", this, &PlanService::SearchPlan);
  Bound("GetPlan", this, &PlanService::GetPlan);
  Bound("ListPlans", this, &PlanService::ListPlans);
  Bound("VerifyPlan", this, &PlanService::VerifyPlan);
  Bound("ExportPlan", this, &PlanService::ExportPlan);
  Bound("GetCapabilities", this, &PlanService::GetCapabilities);
}

grpc::ServerUnaryReactor* PlanService::ShapePlan(grpc::CallbackServerContext* context,
                                                 const v1::ShapePlanRequest* request,
                                                 v1::ShapePlanResponse* response) {
  const auto call = UnaryCall<v1::ShapePlanResponse>::Start(rpc_, __func__, context, response);
  Ask(rpc_, call, *request, [this, call, request] {
    rpc_.core.shapes().ShapePlan(
        call->context(), *request,
        [call](const absl::StatusOr<SharedShape>& answer) { call->End(answer); });
  });
  return call.get();
}

grpc::ServerUnaryReactor* PlanService::CreatePlan(grpc::CallbackServerContext* context,
                                                  const v1::CreatePlanRequest* request,
                                                  v1::Plan* response) {
  const auto call = UnaryCall<v1::Plan>::Start(rpc_, __func__, context, response);
  Ask(rpc_, call, *request, [this, call, request] {
    rpc_.core.plans().CreatePlan(
        call->context(), *request,
        [call](const absl::StatusOr<SharedPlan>& answer) { call->End(answer); });
  });
  return call.get();
}

grpc::ServerWriteReactor<v1::SearchPlanResponse>* PlanService::SearchPlan(
    grpc::CallbackServerContext* context, const v1::CreatePlanRequest* request) {
  return SearchCall::Start(rpc_, context, *request);
}

grpc::ServerUnaryReactor* PlanService::GetPlan(grpc::CallbackServerContext* context,
                                               const v1::GetPlanRequest* request,
                                               v1::Plan* response) {
  return AnswerOnPool(rpc_, __func__, context, request, response,
                      [this, request] { return rpc_.core.plans().GetPlan(*request); });
}

grpc::ServerUnaryReactor* PlanService::ListPlans(grpc::CallbackServerContext* context,
                                                 const v1::ListPlansRequest* request,
                                                 v1::ListPlansResponse* response) {
  // The core lists those that the caller may see.
  return AnswerOnPool(rpc_, __func__, context, request, response,
                      [this, request](const Caller& caller) {
                        return rpc_.core.plans().ListPlans(*request, caller);
                      });
}

grpc::ServerUnaryReactor* PlanService::VerifyPlan(grpc::CallbackServerContext* context,
                                                  const v1::VerifyPlanRequest* request,
                                                  v1::VerifyPlanResponse* response) {
  return AnswerOnPool(rpc_, __func__, context, request, response,
                      [this, request]() -> absl::StatusOr<v1::VerifyPlanResponse> {
                        return rpc_.core.plans().VerifyPlan(*request);
                      });
}

grpc::ServerUnaryReactor* PlanService::ExportPlan(grpc::CallbackServerContext* context,
                                                  const v1::ExportPlanRequest* request,
                                                  v1::ExportPlanResponse* response) {
  return AnswerOnPool(rpc_, __func__, context, request, response,
                      [this, request] { return rpc_.core.plans().ExportPlan(*request); });
}

grpc::ServerUnaryReactor* PlanService::GetCapabilities(grpc::CallbackServerContext* context,
                                                       const v1::GetCapabilitiesRequest* request,
                                                       v1::Capabilities* response) {
  return AnswerOnPool(
      rpc_, __func__, context, request, response,
      [this]() -> absl::StatusOr<v1::Capabilities> { return rpc_.core.plans().GetCapabilities(); });
}

}  // namespace parplan
