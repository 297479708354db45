// Chooses the profiles whose measurements hold for a runtime. `SnapshotOfNodes` and the server's
// `ProfileKeeper` call it.

#ifndef PARPLAN_PROTO_WIRE_PROFILE_SELECTION_H_
#define PARPLAN_PROTO_WIRE_PROFILE_SELECTION_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "parplan/v1/profile.pb.h"

namespace parplan {

// Returns the profiles of `device_kind` that hold for a runtime, newest first, and those of other
// kinds as they are. A profile holds if
//
//   its runtime   is `MeasuredRuntime(runtime_id)` or not known. Of other runtimes the collectives
//                 alone are returned, and only those between GPUs, where every runtime uses NCCL.
//                 Processors (`CPU ...`) have a library of collectives for each runtime.
//   its libraries include no release other than newer profiles of the same runtime name. The
//                 kernel (`linux`) is not compared, nor are profiles without a runtime.
//
// FAILED_PRECONDITION (PROFILE_MISSING), listing the runtimes that were measured, if there are
// profiles of `device_kind` and none is left. Profiles are not null.
absl::StatusOr<std::vector<v1::Profile>> ProfilesForRuntime(
    absl::Span<const v1::Profile* const> newest_first, absl::string_view device_kind,
    absl::string_view runtime_id);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_PROFILE_SELECTION_H_
