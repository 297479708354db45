// A mark on the status of a call that found no server at its address. A program whose call failed
// so asks in its error message whether a server is running there. The client library
// (clients/cpp/status_from_grpc.h) sets the mark; `ErrorText` (base/service/shell/exit_code.h)
// reads it. Both functions are pure.

#ifndef PARPLAN_BASE_UNREACHABLE_H_
#define PARPLAN_BASE_UNREACHABLE_H_

#include "absl/status/status.h"

namespace parplan {

// Returns `status` with the mark. An OK status stays as it is. The mark never leaves the process.
absl::Status MarkUnreachable(absl::Status status);

// Returns whether the status has the mark.
bool IsUnreachable(const absl::Status& status);

}  // namespace parplan

#endif  // PARPLAN_BASE_UNREACHABLE_H_
