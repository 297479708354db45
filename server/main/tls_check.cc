#include "server/main/tls_check.h"

#include "base/service/tls/pem_files.h"
#include "base/status_macros.h"

namespace parplan {

absl::Status CheckTlsFiles(const TlsFiles& files, absl::Time now) {
  if (files.empty()) return absl::OkStatus();
  PARPLAN_RETURN_IF_ERROR(ReadTlsKeyPair(files.certificate, files.key, now).status());
  if (files.client_ca.empty()) return absl::OkStatus();
  return ReadCertificates("tls_client_ca", files.client_ca).status();
}

}  // namespace parplan
