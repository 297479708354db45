// Uploads profiles to a server, and reads those it has. `planctl profile` and the agent's daemon
// use it.

#ifndef PARPLAN_CLIENTS_CPP_PROFILE_CLIENT_H_
#define PARPLAN_CLIENTS_CPP_PROFILE_CLIENT_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/cpp/channel.h"
#include "parplan/v1/profile_service.grpc.pb.h"

namespace parplan {

// Returns the messages that upload `profile` as a child of `parent`,
// `clusters/{cluster}/nodes/{node}`: the header, then pieces of at most about a MiB (more only if
// one measurement has more), none for a profile without measurements. The fields that the server
// fills in (name, time, digest) are left out. `ProfileClient::Upload` sends them.
std::vector<v1::UploadProfileRequest> UploadMessages(absl::string_view parent,
                                                     absl::string_view request_id,
                                                     const v1::Profile& profile);

// Methods are those of profile_service.proto. Their errors are INVALID_ARGUMENT (SPEC_INVALID or
// PROFILE_INVALID) naming the field of the request, NOT_FOUND (RESOURCE_NOT_FOUND),
// PERMISSION_DENIED (ROLE_REQUIRED), RESOURCE_EXHAUSTED and the failures of the server's store; an
// error of the server carries its `ErrorDetail` (base/error.h). Every call waits for its answer, at
// most `options.timeout`, then DEADLINE_EXCEEDED. A call that ends with UNAVAILABLE (also if no
// server answers) or CANCELLED is tried again, at most 4 attempts in all (retry.h); `Delete` is
// tried once. Safe to use from any thread.
class ProfileClient {
 public:
  // `channel` is one of `MakeChannel`; several clients may share it.
  explicit ProfileClient(std::shared_ptr<grpc::Channel> channel);
  // Takes a stub of a test.
  explicit ProfileClient(std::unique_ptr<v1::ProfileService::StubInterface> stub);

  // Uploads a whole profile. An upload that finds no server or breaks is started again, at most 4
  // attempts within `options.timeout`, under the same request id. If `request_id` is empty, a new
  // one is made. INVALID_ARGUMENT (REQUEST_ID_REUSED) for the id of another profile of the node.
  absl::StatusOr<v1::Profile> Upload(absl::string_view parent, const v1::Profile& profile,
                                     std::string request_id = "", const CallOptions& options = {});

  // Returns the stored profile of this name.
  absl::StatusOr<v1::Profile> Get(const v1::GetProfileRequest& request,
                                  const CallOptions& options = {});
  // Returns one page of the profiles of a cluster or of a node, newest first, without their
  // measurements.
  absl::StatusOr<v1::ListProfilesResponse> List(const v1::ListProfilesRequest& request,
                                                const CallOptions& options = {});
  // Deletes the profile of this name. The one attempt may have deleted it although it returned
  // UNAVAILABLE.
  absl::Status Delete(const v1::DeleteProfileRequest& request, const CallOptions& options = {});

 private:
  const std::unique_ptr<v1::ProfileService::StubInterface> stub_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_CPP_PROFILE_CLIENT_H_
