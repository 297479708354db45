// Brings queued profiles to the server. `RunDaemon` has one.

#ifndef PARPLAN_PROFILER_AGENT_DAEMON_UPLOAD_CLIENT_H_
#define PARPLAN_PROFILER_AGENT_DAEMON_UPLOAD_CLIENT_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "clients/cpp/channel.h"
#include "clients/cpp/profile_client.h"
#include "profiler-agent/upload/upload_queue.h"

namespace parplan {

// Uploads with the TLS files that are there at the time: an agent lives for longer than its
// certificate. Used by one thread at a time.
class UploadClient {
 public:
  // Reads the files; the errors of `MakeChannel` for those that cannot be used. `timeout` is that
  // of one upload.
  static absl::StatusOr<std::unique_ptr<UploadClient>> Create(const ChannelOptions& server,
                                                              absl::Duration timeout);

  // Uploads the profile over a channel of its own; uploads are rare. Files that cannot be used, for
  // example in the middle of a renewal, are logged, and the last good ones used. The errors of
  // `ProfileClient::Upload`, and INVALID_ARGUMENT if the queue holds something else.
  absl::Status Upload(const PendingUpload& upload);

 private:
  UploadClient(const ChannelOptions& server, absl::Duration timeout)
      : server_(server), timeout_(timeout) {}

  absl::Status ReadFiles();

  const ChannelOptions server_;
  const absl::Duration timeout_;
  std::unique_ptr<ProfileClient> client_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_DAEMON_UPLOAD_CLIENT_H_
