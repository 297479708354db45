// What a server shows to its callers, and asks of them.

#ifndef PARPLAN_SERVER_RPC_SERVER_CREDENTIALS_H_
#define PARPLAN_SERVER_RPC_SERVER_CREDENTIALS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace parplan {

// Files in PEM. Read again every few seconds, so a renewed certificate needs no
// restart; replace them by renaming, key and certificate together.
struct TlsFiles {
  std::string certificate;  // The server's, followed by those between it and its CA.
  std::string key;
  // Callers must show a certificate of one of these CAs. Empty: callers stay
  // unknown.
  std::string client_ca;

  bool empty() const { return certificate.empty() && key.empty() && client_ca.empty(); }
};

// Credentials without TLS when `files` is empty. INVALID_ARGUMENT (SPEC_INVALID)
// when a file is missing, cannot be read, or holds no PEM.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsFiles& files);

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_SERVER_CREDENTIALS_H_
