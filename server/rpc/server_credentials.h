// TLS credentials of the server: its certificate, and the certificates it asks callers for.
// `RpcServer::Start` makes them; settings and checks use `TlsFiles` too.

#ifndef PARPLAN_SERVER_RPC_SERVER_CREDENTIALS_H_
#define PARPLAN_SERVER_RPC_SERVER_CREDENTIALS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

namespace parplan {

// Paths of files in PEM, and of a folder of them; all empty for a server without TLS. Certificate
// and key go together, and `client_ca` needs both, and `crl_folder` needs `client_ca`;
// `TlsCopies::Make` refuses others.
struct TlsFiles {
  std::string certificate;  // The server's certificate, then those between it and its CA.
  std::string key;          // The key of that certificate.
  // The CAs of which callers must present a certificate. Empty: callers need none.
  std::string client_ca;
  // Folder with the revocation lists of these CAs, which it needs (revocation_lists.h). Empty:
  // whether a certificate was revoked is not checked.
  std::string crl_folder;

  // Returns whether no file is named: the server then speaks plain text.
  bool empty() const {
    return certificate.empty() && key.empty() && client_ca.empty() && crl_folder.empty();
  }
  friend bool operator==(const TlsFiles&, const TlsFiles&) = default;
};

// Makes the credentials, without TLS if `files` is empty. gRPC reads the files again every 5 s and
// takes whatever they hold, so they are copies that were checked (`TlsCopies`). It reads the lists
// of `crl_folder` when a first caller's certificate is verified after the files were read.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const TlsFiles& files);

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_SERVER_CREDENTIALS_H_
