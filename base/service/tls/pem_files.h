// Reads the certificates and keys of TLS and checks them before they are used: gRPC accepts any
// file, and then every call fails without a reason.
//
// All errors but that of `EndOfCertificate`, which reads no file, are INVALID_ARGUMENT
// (SPEC_INVALID) with the setting as `field`, and name the file: also for an empty path (without a
// file's name), a file that cannot be read, what is no regular file, such as a pipe, which is not
// waited for, and a file of more than 16 MiB. Links are followed. Clients read theirs when they
// make a channel, the server before it starts and when it looks for renewed files
// (server/rpc/tls_copies.h). The functions block on the disk and are safe to call from any thread.

#ifndef PARPLAN_BASE_SERVICE_TLS_PEM_FILES_H_
#define PARPLAN_BASE_SERVICE_TLS_PEM_FILES_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace parplan {

// Returns the contents of a file of one or more certificates in PEM. Every certificate must be
// whole, not only the first, and so must blocks of TRUSTED CERTIFICATE, which count as
// certificates; whether they are valid now is not checked. `field` is the name of the setting, for
// errors.
absl::StatusOr<std::string> ReadCertificates(const char* field, const std::string& path);

// A chain of certificates and the key of the first one, both in PEM.
struct TlsKeyPair {
  std::string certificates;
  std::string key;
};

// Reads a certificate, which those between it and its CA may follow, and its key, in this order.
// Refuses a key that is encrypted or belongs to another certificate, and a first certificate that
// is not valid at `now`. Whether the others are valid and make a chain is not checked, nor who may
// read the key. Errors name the settings `tls_certificate` and `tls_key`.
absl::StatusOr<TlsKeyPair> ReadTlsKeyPair(const std::string& certificate_path,
                                          const std::string& key_path, absl::Time now);

// Returns the last moment at which the first certificate of a text in PEM is valid; nothing if it
// has none that can be read.
std::optional<absl::Time> EndOfCertificate(const std::string& pem);

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_TLS_PEM_FILES_H_
