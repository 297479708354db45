// Snapshots for jobs that get only a part of each node. The server's `ProfileKeeper` and offline
// planning call `SnapshotOfNodes`.

#ifndef PARPLAN_PROTO_WIRE_PART_OF_NODE_H_
#define PARPLAN_PROTO_WIRE_PART_OF_NODE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "parplan/v1/profile.pb.h"
#include "planner/model/profile_snapshot.h"

namespace parplan {

// Returns the smallest size of a measured node of `device_kind`, in devices, that is a multiple of
// `devices_per_node`. Returns `devices_per_node` itself if no profile has such a size, or if it is
// below 1. Profiles are not null. Their runtimes are not compared: callers pass those that hold for
// the runtime of the question (profile_selection.h), as `SnapshotOfNodes` and `ProfileKeeper` do.
int MeasuredNodeSize(absl::Span<const v1::Profile* const> profiles, absl::string_view device_kind,
                     int devices_per_node);

// Returns the measurements that also hold for `devices_per_node` neighbouring devices of a larger
// node: every layer and optimizer step, overlap slowdown and context memory, and the collectives of
// groups within the part. They were taken while the whole node was busy, so their times are more
// likely too high than too low. `SnapshotOfNodes` calls it. A size below 1 is INVALID_ARGUMENT
// (PROFILE_INVALID). REQUIRES: another size divides the node of `whole`, which is not checked.
absl::StatusOr<ProfileSnapshot> PartOfNode(const ProfileSnapshot& whole, int devices_per_node);

// Merges the profiles of nodes of `devices_per_node` devices that hold for a runtime
// (profile_selection.h); if none was measured, returns the part of the smallest larger node that
// `devices_per_node` divides. FAILED_PRECONDITION (PROFILE_MISSING), listing the kinds of nodes or
// the runtimes that were measured, if neither exists, which includes every size below 1;
// INVALID_ARGUMENT (PROFILE_INVALID) for a profile that did not pass `ValidateProfile`. Profiles
// are not null and used only during the call.
//
//   runtime_id   of the question, as in `RuntimeTraits`
absl::StatusOr<ProfileSnapshot> SnapshotOfNodes(absl::Span<const v1::Profile* const> newest_first,
                                                absl::string_view device_kind, int devices_per_node,
                                                absl::string_view runtime_id);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_PART_OF_NODE_H_
