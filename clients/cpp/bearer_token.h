// Sends the token of a Kubernetes service account with each call. `MakeChannel` uses it.

#ifndef PARPLAN_CLIENTS_CPP_BEARER_TOKEN_H_
#define PARPLAN_CLIENTS_CPP_BEARER_TOKEN_H_

#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace parplan {

// Reads a token: the text of the file without the white space around it. INVALID_ARGUMENT
// (SPEC_INVALID) naming `token_file` if the file cannot be read, is no regular file, is larger than
// 16 KiB, or holds anything but one word of printable ASCII.
absl::StatusOr<std::string> ReadBearerToken(const std::string& path);

// Returns credentials of a call that add `authorization: Bearer TOKEN` to each call. The file is
// read anew for each call, since Kubernetes replaces it long before the token expires. A call for
// which it cannot be read ends with UNAVAILABLE and says why. gRPC sends them over no channel
// without encryption but a local one.
std::shared_ptr<grpc::CallCredentials> BearerTokenCredentials(const std::string& path);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_CPP_BEARER_TOKEN_H_
