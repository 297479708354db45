// `ProfileService` of services.h.

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "server/core/profile_keeper.h"
#include "server/rpc/client_stream_call.h"
#include "server/rpc/services.h"
#include "server/rpc/unary_call.h"

namespace parplan {
namespace {

// An upload whose messages and answer are bytes.
class RawUpload {
 public:
  explicit RawUpload(std::unique_ptr<UploadSession> session) : session_(std::move(session)) {}

  absl::Status Add(const grpc::ByteBuffer& message) {
    grpc::Slice whole;
    if (!message.DumpToSingleSlice(&whole).ok()) {
      return absl::InternalError("the server cannot read a message of the upload");
    }
    return session_->Add(std::string(reinterpret_cast<const char*>(whole.begin()), whole.size()));
  }

  absl::StatusOr<grpc::ByteBuffer> Finish() {
    PARPLAN_ASSIGN_OR_RETURN(const v1::Profile profile, session_->Finish());
    const grpc::Slice slice(profile.SerializeAsString());
    return grpc::ByteBuffer(&slice, 1);
  }

 private:
  std::unique_ptr<UploadSession> session_;
};

}  // namespace

ProfileService::ProfileService(const RpcContext& rpc) : BoundedService(rpc.requests), rpc_(rpc) {
  Bound("GetProfile", this, &ProfileService::GetProfile);
  Bound("ListProfiles", this, &ProfileService::ListProfiles);
  Bound("DeleteProfile", this, &ProfileService::DeleteProfile);
}

grpc::ServerReadReactor<grpc::ByteBuffer>* ProfileService::UploadProfile(
    grpc::CallbackServerContext* context, grpc::ByteBuffer* response) {
  using UploadCall = ClientStreamCall<grpc::ByteBuffer, grpc::ByteBuffer, RawUpload>;
  return UploadCall::Start(
      rpc_, __func__, context, response, [this](const std::shared_ptr<CallContext>& call) {
        return std::make_unique<RawUpload>(rpc_.core.profiles().StartUpload(call));
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
