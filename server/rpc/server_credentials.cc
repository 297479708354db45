#include "server/rpc/server_credentials.h"

// Uses gRPC 1.51's experimental TLS credentials, the only ones that can read certificates again; no
// other source does.
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

namespace parplan {
namespace {

constexpr unsigned int kReloadSeconds = 5;

}  // namespace

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const TlsFiles& files) {
  if (files.empty()) return grpc::InsecureServerCredentials();
  const bool mutual = !files.client_ca.empty();

  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          files.key, files.certificate, files.client_ca, kReloadSeconds));
  options.watch_identity_key_cert_pairs();
  if (mutual) {
    options.watch_root_certs();
    if (!files.crl_folder.empty()) options.set_crl_directory(files.crl_folder);
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace parplan
