#include "server/rpc/server_credentials.h"

// Uses gRPC 1.51's experimental TLS credentials, the only ones that can read certificates again; no
// other source does.
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <fstream>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

constexpr unsigned int kReloadSeconds = 5;

absl::Status CheckPem(absl::string_view field, const std::string& path, absl::string_view label) {
  if (path.empty()) {
    return FieldError(Reason::kSpecInvalid, field,
                      "is missing; TLS needs a certificate and its key");
  }
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) {
    return FieldError(Reason::kSpecInvalid, field, absl::StrCat("cannot read `", path, "`"));
  }
  if (!absl::StrContains(text, "-----BEGIN ") || !absl::StrContains(text, label)) {
    return FieldError(Reason::kSpecInvalid, field,
                      absl::StrCat("`", path, "` holds no ", label, " in PEM"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsFiles& files) {
  if (files.empty()) return grpc::InsecureServerCredentials();
  PARPLAN_RETURN_IF_ERROR(CheckPem("tls_certificate", files.certificate, "CERTIFICATE"));
  PARPLAN_RETURN_IF_ERROR(CheckPem("tls_key", files.key, "PRIVATE KEY"));
  const bool mutual = !files.client_ca.empty();
  if (mutual) PARPLAN_RETURN_IF_ERROR(CheckPem("tls_client_ca", files.client_ca, "CERTIFICATE"));

  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          files.key, files.certificate, files.client_ca, kReloadSeconds));
  options.watch_identity_key_cert_pairs();
  if (mutual) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace parplan
