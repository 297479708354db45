// Asks a server for plans. planctl, the sidecar and the tools for Slurm use it.

#ifndef PARPLAN_CLIENTS_CPP_PLAN_CLIENT_H_
#define PARPLAN_CLIENTS_CPP_PLAN_CLIENT_H_

#include <grpcpp/channel.h>

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "clients/cpp/channel.h"
#include "parplan/v1/plan_service.grpc.pb.h"

namespace parplan {

// Methods and their errors are those of plan_service.proto; an error of the server carries its
// `ErrorDetail`. Every call waits for its answer, at most `options.timeout`, then
// DEADLINE_EXCEEDED. The server ends a search shortly before that with the best plan so far. A call
// that ends with UNAVAILABLE (also if no server answers) or CANCELLED is tried again, at most 4
// attempts in all (retry.h). Safe to use from any thread.
class PlanClient {
 public:
  // `channel` is one of `MakeChannel`; several clients may share it.
  explicit PlanClient(std::shared_ptr<grpc::Channel> channel);
  // Takes a stub of a test.
  explicit PlanClient(std::unique_ptr<v1::PlanService::StubInterface> stub);

  absl::StatusOr<v1::ShapePlanResponse> ShapePlan(const v1::ShapePlanRequest& request,
                                                  const CallOptions& options = {});

  // Fills in a new `request_id` if the request has none, so that all attempts of this call make the
  // same plan. A caller that may repeat the call sets its own.
  absl::StatusOr<v1::Plan> CreatePlan(v1::CreatePlanRequest request,
                                      const CallOptions& options = {});

  // Does the same as `CreatePlan` and calls `on_progress` on this thread during the call, unless it
  // is null. A stream that breaks is started again, at most 4 attempts within `options.timeout`;
  // progress then starts from zero, or from where the search is if another server continues it.
  // INTERNAL if the server ends the stream with neither a plan nor an error.
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
  absl::StatusOr<v1::ExportPlanResponse> ExportPlan(const v1::ExportPlanRequest& request,
                                                    const CallOptions& options = {});
  absl::StatusOr<v1::Capabilities> GetCapabilities(const CallOptions& options = {});

 private:
  const std::unique_ptr<v1::PlanService::StubInterface> stub_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_CPP_PLAN_CLIENT_H_
