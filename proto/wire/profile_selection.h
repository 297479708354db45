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
// kinds as they are. A profile holds if both are true:
//
// * Its runtime is `MeasuredRuntime(runtime_id)` or not known.
// * No library in it has another release than in a newer profile of the same runtime. The kernel
//   (`linux`) is not compared, and profiles without a runtime are not compared at all.
//
// A profile of another runtime for which the second is true is returned with its collectives alone,
// behind all others, if it is of GPUs, because every runtime uses NCCL there. Processors
// (`CPU ...`) have a library of collectives for each runtime.
//
// FAILED_PRECONDITION (PROFILE_MISSING), listing the runtimes that were measured, if there are
// profiles of `device_kind` and none is left. Profiles are not null.
absl::StatusOr<std::vector<v1::Profile>> ProfilesForRuntime(
    absl::Span<const v1::Profile* const> newest_first, absl::string_view device_kind,
    absl::string_view runtime_id);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_PROFILE_SELECTION_H_
