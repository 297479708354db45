#include "profiler-agent/daemon/upload_client.h"

#include <utility>

#include "base/service/log/event_log.h"
#include "base/status_macros.h"
#include "profiler-agent/daemon/status_text.h"

namespace parplan {

absl::StatusOr<std::unique_ptr<UploadClient>> UploadClient::Create(const ChannelOptions& server,
                                                                   absl::Duration timeout) {
  std::unique_ptr<UploadClient> made(new UploadClient(server, timeout));
  PARPLAN_RETURN_IF_ERROR(made->ReadFiles());
  return made;
}

absl::Status UploadClient::Upload(const PendingUpload& upload) {
  v1::Profile profile;
  if (!profile.ParseFromString(upload.profile)) {
    return absl::InvalidArgumentError("the queue holds no profile");
  }
  if (const absl::Status read = ReadFiles(); !read.ok()) {
    LogEvent("error", "tls files", {{"message", StatusText(read)}});
  }
  CallOptions call;
  call.timeout = timeout_;
  call.log_request_id = upload.request_id;
  return client_->Upload(upload.parent, profile, upload.request_id, call).status();
}

absl::Status UploadClient::ReadFiles() {
  PARPLAN_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel, MakeChannel(server_));
  client_ = std::make_unique<ProfileClient>(std::move(channel));
  return absl::OkStatus();
}

}  // namespace parplan
