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

// Methods are those of plan_service.proto. Their errors are INVALID_ARGUMENT (SPEC_INVALID) naming
// the field of the request, NOT_FOUND (RESOURCE_NOT_FOUND), PERMISSION_DENIED (ROLE_REQUIRED),
// those named at a method, RESOURCE_EXHAUSTED and the failures of the server's store; an error of
// the server carries its `ErrorDetail` (base/error.h). Every call waits for its answer, at most
// `options.timeout`, then DEADLINE_EXCEEDED. The server ends a search shortly before that with the
// best plan so far. A call that ends with UNAVAILABLE (also if no server answers) or CANCELLED is
// tried again, at most 4 attempts in all (retry.h). Safe to use from any thread.
class PlanClient {
 public:
  // `channel` is one of `MakeChannel`; several clients may share it.
  explicit PlanClient(std::shared_ptr<grpc::Channel> channel);
  // Takes a stub of a test.
  explicit PlanClient(std::unique_ptr<v1::PlanService::StubInterface> stub);

  // Plans a job for every number of devices on offer, and returns an option for each with a
  // recommendation; that nothing fits is an answer. Errors of a search: see `CreatePlan`, without
  // NO_FEASIBLE_PLAN and those of a `request_id`.
  absl::StatusOr<v1::ShapePlanResponse> ShapePlan(const v1::ShapePlanRequest& request,
                                                  const CallOptions& options = {});

  // Returns a signed plan for the question of the request. Fills in a new `request_id` if the
  // request has none, so that all attempts of this call make the same plan. A caller that may
  // repeat the call sets its own. INVALID_ARGUMENT (REQUEST_ID_REUSED) for an id of another
  // question, FAILED_PRECONDITION for one whose plan has expired (PLAN_EXPIRED) or was signed by
  // keys that are revoked (SIGNATURE_INVALID). Errors of a search are FAILED_PRECONDITION
  // (PROFILE_MISSING, NO_FEASIBLE_PLAN), RESOURCE_EXHAUSTED (QUEUE_FULL, QUOTA_EXCEEDED,
  // SEARCH_OUT_OF_MEMORY), DEADLINE_EXCEEDED (SEARCH_TIMED_OUT) and INTERNAL (CHECK_FAILED).
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

  // Returns the stored plan of this name, expired or not.
  absl::StatusOr<v1::Plan> GetPlan(const v1::GetPlanRequest& request,
                                   const CallOptions& options = {});
  // Returns one page of the plans of a cluster, newest first, without their specs, alternatives and
  // memory fronts.
  absl::StatusOr<v1::ListPlansResponse> ListPlans(const v1::ListPlansRequest& request,
                                                  const CallOptions& options = {});
  // Returns the server's verdict on a signed plan; a bad plan is a verdict and no error. Programs
  // that run plans verify by themselves (`PlanVerifier`, proto/envelope/verifier.h).
  absl::StatusOr<v1::VerifyPlanResponse> VerifyPlan(const v1::VerifyPlanRequest& request,
                                                    const CallOptions& options = {});
  // Returns the files of a plan for another program (exports/exporters.h). INVALID_ARGUMENT
  // (SPEC_INVALID) if that program cannot run the plan, (PAYLOAD_MALFORMED) for a given plan that
  // cannot be read; PERMISSION_DENIED (SIGNATURE_INVALID) for a plan that no key trusted by the
  // server signed; FAILED_PRECONDITION (PLAN_EXPIRED) for an expired one.
  absl::StatusOr<v1::ExportPlanResponse> ExportPlan(const v1::ExportPlanRequest& request,
                                                    const CallOptions& options = {});
  // Returns release, planners, limits and public keys of the server.
  absl::StatusOr<v1::Capabilities> GetCapabilities(const CallOptions& options = {});

 private:
  const std::unique_ptr<v1::PlanService::StubInterface> stub_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_CPP_PLAN_CLIENT_H_
