// Reads the revocation lists of certificate authorities and checks them before they are used: gRPC
// takes a list that is missing, or lies under another name, for one that revokes nothing.
// `TlsCopies` and `CheckTlsFiles` of the server read them.

#ifndef PARPLAN_BASE_SERVICE_TLS_REVOCATION_LISTS_H_
#define PARPLAN_BASE_SERVICE_TLS_REVOCATION_LISTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace parplan {

// Reads the lists of a folder in which OpenSSL finds them: PEM files with the names that
// `openssl rehash` gives, `HASH.r0`, `HASH.r1` and so on for each authority. Other files are not
// looked at.
//
// Returns all lists in PEM, by name: a text that changes with any of them. INVALID_ARGUMENT
// (SPEC_INVALID) naming `tls_crl_folder` and the file or the authority: for a folder or file that
// cannot be read, a file with anything but one list, a list under the hash of another authority,
// and an authority of `authorities`, certificates in PEM, without a list that its key signed and
// that is good at `now`. Authorities between these and the certificates of callers are not looked
// for. Blocks on the disk; safe to call from any thread.
absl::StatusOr<std::string> ReadRevocationLists(const std::string& folder,
                                                const std::string& authorities, absl::Time now);

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_TLS_REVOCATION_LISTS_H_
