// A call of `SearchPlan`: sends the progress of the search, then the plan.
// `PlanService::SearchPlan` starts one; gRPC calls it from any of its threads.

#ifndef PARPLAN_SERVER_RPC_SEARCH_CALL_H_
#define PARPLAN_SERVER_RPC_SEARCH_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/statusor.h"
#include "parplan/v1/plan_service.pb.h"
#include "server/core/plan_core.h"
#include "server/rpc/call.h"

namespace parplan {

// A client that reads slowly misses progress, never the plan: while a message is being sent, only
// the latest progress is kept. The call ends with the error of `Call::Authorize` or of
// `PlanCore::SearchPlan`, with UNAUTHENTICATED (ROLE_REQUIRED) once the caller's credential has
// ended (`CredentialWatch`), which also gives the search up, or INTERNAL if the core throws.
class SearchCall final : public grpc::ServerWriteReactor<v1::SearchPlanResponse> {
 public:
  // Starts a call that owns itself. `rpc` outlives it; gRPC keeps `request` until the call ends.
  static SearchCall* Start(const RpcContext& rpc, grpc::CallbackServerContext* server_context,
                           const v1::CreatePlanRequest& request);

  void OnWriteDone(bool ok) override;
  void OnCancel() override { call_.context()->Cancel(); }
  void OnDone() override {
    call_.Done();
    self_.reset();
  }

 private:
  SearchCall(const RpcContext& rpc, grpc::CallbackServerContext& server_context);

  // Sends or keeps progress. Called on a searching thread.
  void SendProgress(const v1::SearchProgress& progress);

  // Sets the answer. Called on any thread; only the first call counts.
  void Conclude(const absl::StatusOr<SharedPlan>& answer);

  bool HasAnswer();

  // Says that nothing reads the request any more, and ends a call that has its answer.
  void LeaveRequest();

  // Ends the call with its credential, and gives the search up.
  void Revoke(const absl::Status& status);

  // Sends what waits, unless a message is being sent.
  void Advance();

  Call call_;
  v1::SearchPlanResponse message_;  // On its way while `writing_`.

  std::mutex mutex_;
  bool writing_ = false;                              // Guarded by mutex_.
  bool finished_ = false;                             // Guarded by mutex_.
  bool reads_request_ = true;                         // Guarded by mutex_.
  std::optional<v1::SearchProgress> news_;            // Guarded by mutex_.
  std::optional<absl::StatusOr<SharedPlan>> answer_;  // Guarded by mutex_.

  std::shared_ptr<SearchCall> self_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_SEARCH_CALL_H_
