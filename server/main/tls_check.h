// Checks the TLS files before a server starts, because gRPC accepts any file and then refuses every
// caller. main.cc calls it.

#ifndef PARPLAN_SERVER_MAIN_TLS_CHECK_H_
#define PARPLAN_SERVER_MAIN_TLS_CHECK_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/rpc/server_credentials.h"

namespace parplan {

// Returns OK if there are no files. INVALID_ARGUMENT (SPEC_INVALID) naming field and file for a
// file that is missing, cannot be read, has other contents or is encrypted, for a key that is not
// that of the certificate, and for a server certificate that is not valid at `now`. Certificate and
// key go together, a client CA needs both, and a folder of revocation lists needs a client CA and a
// good list of each. Whether further certificates and those of the client
// CA are valid is not checked.
absl::Status CheckTlsFiles(const TlsFiles& files, absl::Time now);

}  // namespace parplan

#endif  // PARPLAN_SERVER_MAIN_TLS_CHECK_H_
