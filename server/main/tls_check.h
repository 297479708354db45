// Whether the files of TLS are what they should be: looked at before a server starts, because
// gRPC takes any file and then answers nobody.

#ifndef PARPLAN_SERVER_MAIN_TLS_CHECK_H_
#define PARPLAN_SERVER_MAIN_TLS_CHECK_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/rpc/server_credentials.h"

namespace parplan {

// OK when there are none. INVALID_ARGUMENT (SPEC_INVALID) naming field and file for one that is
// missing, can't be read, holds something else or is encrypted, for a key that is not the
// certificate's, and for a certificate of the server that does not hold at `now`.
absl::Status CheckTlsFiles(const TlsFiles& files, absl::Time now);

}  // namespace parplan

#endif  // PARPLAN_SERVER_MAIN_TLS_CHECK_H_
