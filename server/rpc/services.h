// The services of the API, each a thin layer over the core. proto/parplan/v1/*_service.proto
// documents the methods and their errors. gRPC calls them from any of its threads. Work that may
// wait for a disk runs on `RpcContext::pool`, that of `CreatePlan`, `SearchPlan` and `ShapePlan` on
// `RpcContext::question_pool`; searches run on the pool of the core.

#ifndef PARPLAN_SERVER_RPC_SERVICES_H_
#define PARPLAN_SERVER_RPC_SERVICES_H_

#include "parplan/v1/agent_service.grpc.pb.h"
#include "parplan/v1/calibration_service.grpc.pb.h"
#include "parplan/v1/execution_service.grpc.pb.h"
#include "parplan/v1/plan_service.grpc.pb.h"
#include "parplan/v1/profile_service.grpc.pb.h"
#include "server/rpc/bounded_request.h"
#include "server/rpc/call.h"

namespace parplan {

// Uploads come as bytes: what gRPC decodes by itself takes many times the memory of a message, and
// the core decodes one upload at a time.
class ProfileService final
    : public BoundedService<v1::ProfileService::WithRawCallbackMethod_UploadProfile<
          v1::ProfileService::CallbackService>> {
 public:
  // `rpc` outlives the service.
  explicit ProfileService(const RpcContext& rpc);

  grpc::ServerReadReactor<grpc::ByteBuffer>* UploadProfile(grpc::CallbackServerContext* context,
                                                           grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetProfile(grpc::CallbackServerContext* context,
                                       const v1::GetProfileRequest* request,
                                       v1::Profile* response) override;
  grpc::ServerUnaryReactor* ListProfiles(grpc::CallbackServerContext* context,
                                         const v1::ListProfilesRequest* request,
                                         v1::ListProfilesResponse* response) override;
  grpc::ServerUnaryReactor* DeleteProfile(grpc::CallbackServerContext* context,
                                          const v1::DeleteProfileRequest* request,
                                          google::protobuf::Empty* response) override;

 private:
  const RpcContext& rpc_;
};

// Answers `CreatePlan`, `SearchPlan` and `ShapePlan` by searches of the core or from answers that
// are known, the others without a search.
class PlanService final : public BoundedService<v1::PlanService::CallbackService> {
 public:
  // `rpc` outlives the service.
  explicit PlanService(const RpcContext& rpc);

  grpc::ServerUnaryReactor* ShapePlan(grpc::CallbackServerContext* context,
                                      const v1::ShapePlanRequest* request,
                                      v1::ShapePlanResponse* response) override;
  grpc::ServerUnaryReactor* CreatePlan(grpc::CallbackServerContext* context,
                                       const v1::CreatePlanRequest* request,
                                       v1::Plan* response) override;
  grpc::ServerWriteReactor<v1::SearchPlanResponse>* SearchPlan(
      grpc::CallbackServerContext* context, const v1::CreatePlanRequest* request) override;
  grpc::ServerUnaryReactor* GetPlan(grpc::CallbackServerContext* context,
                                    const v1::GetPlanRequest* request, v1::Plan* response) override;
  grpc::ServerUnaryReactor* ListPlans(grpc::CallbackServerContext* context,
                                      const v1::ListPlansRequest* request,
                                      v1::ListPlansResponse* response) override;
  grpc::ServerUnaryReactor* VerifyPlan(grpc::CallbackServerContext* context,
                                       const v1::VerifyPlanRequest* request,
                                       v1::VerifyPlanResponse* response) override;
  grpc::ServerUnaryReactor* ExportPlan(grpc::CallbackServerContext* context,
                                       const v1::ExportPlanRequest* request,
                                       v1::ExportPlanResponse* response) override;
  grpc::ServerUnaryReactor* GetCapabilities(grpc::CallbackServerContext* context,
                                            const v1::GetCapabilitiesRequest* request,
                                            v1::Capabilities* response) override;

 private:
  const RpcContext& rpc_;
};

// Receives reports of executions and answers questions about them. Reports come as bytes, so that
// those of too many parts are not decoded.
class ExecutionService final
    : public BoundedService<v1::ExecutionService::WithRawCallbackMethod_ReportMetrics<
          v1::ExecutionService::CallbackService>> {
 public:
  // `rpc` outlives the service.
  explicit ExecutionService(const RpcContext& rpc);

  grpc::ServerUnaryReactor* CreateExecution(grpc::CallbackServerContext* context,
                                            const v1::CreateExecutionRequest* request,
                                            v1::Execution* response) override;
  grpc::ServerReadReactor<grpc::ByteBuffer>* ReportMetrics(grpc::CallbackServerContext* context,
                                                           grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* CompleteExecution(grpc::CallbackServerContext* context,
                                              const v1::CompleteExecutionRequest* request,
                                              v1::Execution* response) override;
  grpc::ServerUnaryReactor* FailExecution(grpc::CallbackServerContext* context,
                                          const v1::FailExecutionRequest* request,
                                          v1::Execution* response) override;
  grpc::ServerUnaryReactor* GetExecution(grpc::CallbackServerContext* context,
                                         const v1::GetExecutionRequest* request,
                                         v1::Execution* response) override;
  grpc::ServerUnaryReactor* ListExecutions(grpc::CallbackServerContext* context,
                                           const v1::ListExecutionsRequest* request,
                                           v1::ListExecutionsResponse* response) override;

 private:
  const RpcContext& rpc_;
};

// Stores calibrations and chooses the active one.
class CalibrationService final : public BoundedService<v1::CalibrationService::CallbackService> {
 public:
  // `rpc` outlives the service.
  explicit CalibrationService(const RpcContext& rpc);

  grpc::ServerUnaryReactor* UploadCalibration(grpc::CallbackServerContext* context,
                                              const v1::UploadCalibrationRequest* request,
                                              v1::Calibration* response) override;
  grpc::ServerUnaryReactor* GetCalibration(grpc::CallbackServerContext* context,
                                           const v1::GetCalibrationRequest* request,
                                           v1::Calibration* response) override;
  grpc::ServerUnaryReactor* ListCalibrations(grpc::CallbackServerContext* context,
                                             const v1::ListCalibrationsRequest* request,
                                             v1::ListCalibrationsResponse* response) override;
  grpc::ServerUnaryReactor* ActivateCalibration(grpc::CallbackServerContext* context,
                                                const v1::ActivateCalibrationRequest* request,
                                                v1::ActiveCalibration* response) override;
  grpc::ServerUnaryReactor* GetActiveCalibration(grpc::CallbackServerContext* context,
                                                 const v1::GetActiveCalibrationRequest* request,
                                                 v1::ActiveCalibration* response) override;

 private:
  const RpcContext& rpc_;
};

// Keeps the streams of agents and lists the agents. Messages of agents come as bytes, so that those
// of too many parts are not decoded.
class AgentService final
    : public BoundedService<v1::AgentService::WithRawCallbackMethod_ConnectAgent<
          v1::AgentService::WithCallbackMethod_ListAgents<v1::AgentService::Service>>> {
 public:
  // `rpc` outlives the service.
  explicit AgentService(const RpcContext& rpc);

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ConnectAgent(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* ListAgents(grpc::CallbackServerContext* context,
                                       const v1::ListAgentsRequest* request,
                                       v1::ListAgentsResponse* response) override;

 private:
  const RpcContext& rpc_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_SERVICES_H_
