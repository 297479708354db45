#include "server/main/tls_check.h"

#include <string>

#include "base/error.h"
#include "base/service/tls/pem_files.h"
#include "base/service/tls/revocation_lists.h"
#include "base/status_macros.h"

namespace parplan {

absl::Status CheckTlsFiles(const TlsFiles& files, absl::Time now) {
  if (files.empty()) return absl::OkStatus();
  PARPLAN_RETURN_IF_ERROR(ReadTlsKeyPair(files.certificate, files.key, now).status());
  if (files.client_ca.empty()) {
    if (files.crl_folder.empty()) return absl::OkStatus();
    return FieldError(Reason::kSpecInvalid, "tls_crl_folder",
                      "needs tls_client_ca; without it callers have no certificates to revoke");
  }
  PARPLAN_ASSIGN_OR_RETURN(const std::string client_ca,
                           ReadCertificates("tls_client_ca", files.client_ca));
  if (files.crl_folder.empty()) return absl::OkStatus();
  return ReadRevocationLists(files.crl_folder, client_ca, now).status();
}

}  // namespace parplan
