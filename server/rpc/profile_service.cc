#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/profile_keeper.h"
#include "server/rpc/client_stream_call.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_call.h"

namespace parplan {

grpc::ServerReadReactor<v1::UploadProfileRequest>* ProfileService::UploadProfile(
    grpc::CallbackServerContext* context, v1::Profile* response) {
  using UploadCall = ClientStreamCall<v1::UploadProfileRequest, v1::Profile, UploadSession>;
  return UploadCall::Start(rpc_, __func__, context, response,
                           [this](const std::shared_ptr<CallContext>& call) {
                             return rpc_.core.profiles().StartUpload(call);
                           });
}

grpc::ServerUnaryReactor* ProfileService::GetProfile(grpc::CallbackServerContext* context,
                                                     const v1::GetProfileRequest* request,
                                                     v1::Profile* response) {
  return AnswerOnPool(rpc_, __func__, context, request, response,
                      [this, request] { return rpc_.core.profiles().Get(*request); });
}

grpc::ServerUnaryReactor* ProfileService::ListProfiles(grpc::CallbackServerContext* context,
                                                       const v1::ListProfilesRequest* request,
                                                       v1::ListProfilesResponse* response) {
  return AnswerOnPool(rpc_, __func__, context, request, response,
                      [this, request] { return rpc_.core.profiles().List(*request); });
}

grpc::ServerUnaryReactor* ProfileService::DeleteProfile(grpc::CallbackServerContext* context,
                                                        const v1::DeleteProfileRequest* request,
                                                        google::protobuf::Empty* response) {
  return AnswerOnPool(rpc_, __func__, context, request, response,
                      [this, request]() -> absl::StatusOr<google::protobuf::Empty> {
                        const absl::Status deleted = rpc_.core.profiles().Delete(*request);
                        if (!deleted.ok()) return deleted;
                        return google::protobuf::Empty();
                      });
}

}  // namespace parplan
