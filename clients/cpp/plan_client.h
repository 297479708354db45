// Asks a server for plans.

#ifndef PARPLAN_CLIENTS_CPP_PLAN_CLIENT_H_
#define PARPLAN_CLIENTS_CPP_PLAN_CLIENT_H_

#include <grpcpp/channel.h>

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "clients/cpp/channel.h"
#include "parplan/v1/plan_service.grpc.pb.h"

namespace parplan {

// Methods and their errors are those of plan_service.proto; an error of the server
// carries its `ErrorDetail`. Safe to use from any thread.
class PlanClient {
 public:
  explicit PlanClient(std::shared_ptr<grpc::Channel> channel);
  // For tests.
  explicit PlanClient(std::unique_ptr<v1::PlanService::StubInterface> stub);

  absl::StatusOr<v1::ShapePlanResponse> ShapePlan(const v1::ShapePlanRequest& request,
                                                  const CallOptions& options = {});

  // Gives the request a `request_id` where it has none, so that it may be repeated.
  absl::StatusOr<v1::Plan> CreatePlan(v1::CreatePlanRequest request,
                                      const CallOptions& options = {});

  // As `CreatePlan`; `on_progress` is called on this thread. A stream that breaks is begun
  // again, up to 4 times within `options.timeout`: then progress starts from its beginning,
  // or at where the search is that another server goes on with.
  absl::StatusOr<v1::Plan> SearchPlan(
      v1::CreatePlanRequest request,
      const std::function<void(const v1::SearchProgress&)>& on_progress,
      const CallOptions& options = {});

  absl::StatusOr<v1::Plan> GetPlan(const v1::GetPlanRequest& request,
                                   const CallOptions& options = {});
  absl::StatusOr<v1::ListPlansResponse> ListPlans(const v1::ListPlansRequest& request,
                                                  const CallOptions& options = {});
  absl::StatusOr<v1::VerifyPlanResponse> VerifyPlan(const v1::VerifyPlanRequest& request,
                                                    const CallOptions& options = {});
  absl::StatusOr<v1::Capabilities> GetCapabilities(const CallOptions& options = {});

 private:
  const std::unique_ptr<v1::PlanService::StubInterface> stub_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_CPP_PLAN_CLIENT_H_
