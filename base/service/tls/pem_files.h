// Certificates and keys of TLS in files, looked at before they are used: gRPC takes any file, and
// then fails call by call without a word why.

#ifndef PARPLAN_BASE_SERVICE_TLS_PEM_FILES_H_
#define PARPLAN_BASE_SERVICE_TLS_PEM_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace parplan {

// All errors are INVALID_ARGUMENT (SPEC_INVALID) and name the field and the file.

// The content of a file of certificates in PEM, at least one; refused also where a later one is
// damaged. `field` is what the file is called in settings.
absl::StatusOr<std::string> ReadCertificates(const char* field, const std::string& path);

struct TlsKeyPair {
  std::string certificates;
  std::string key;
};

// A certificate, perhaps followed by those between it and its CA, and its key. Refused: a key that
// is encrypted or another certificate's, and a first certificate that does not hold at `now`.
absl::StatusOr<TlsKeyPair> ReadTlsKeyPair(const std::string& certificate_path,
                                          const std::string& key_path, absl::Time now);

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_TLS_PEM_FILES_H_
