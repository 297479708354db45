// Snapshots for jobs that get only a part of each node. Offline planning calls `SnapshotOfNodes`;
// the server's `ProfileKeeper` adds profiles one by one (snapshot_builder.h).

#ifndef PARPLAN_PROTO_WIRE_PART_OF_NODE_H_
#define PARPLAN_PROTO_WIRE_PART_OF_NODE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "parplan/v1/profile.pb.h"
#include "planner/model/profile_snapshot.h"

namespace parplan {

// Returns the measurements that also hold for `devices_per_node` neighbouring devices of a larger
// node: every layer and optimizer step, overlap slowdown, the memory of context and communicators,
// and the collectives of groups within the part (participants times stride at most
// `devices_per_node`). They were taken while the whole node was busy, so their times are more
// likely too high than too low. INVALID_ARGUMENT (PROFILE_INVALID) if `devices_per_node` is below
// 1. REQUIRES: it divides the node of `whole`, which is not checked.
absl::StatusOr<ProfileSnapshot> PartOfNode(const ProfileSnapshot& whole, int devices_per_node);

// Merges the profiles of nodes of `devices_per_node` devices that hold for a runtime
// (profile_selection.h); if none was measured, returns the part of the smallest node of which they
// are a part.
// FAILED_PRECONDITION (PROFILE_MISSING), listing the kinds of nodes or the runtimes that were
// measured, if neither exists; INVALID_ARGUMENT (PROFILE_INVALID) as in `SnapshotBuilder::Add`, of
// the first such profile. Profiles are not null, the newest first: of equal points it counts.
//
//   runtime_id   of the question, as in `RuntimeTraits`
absl::StatusOr<ProfileSnapshot> SnapshotOfNodes(absl::Span<const v1::Profile* const> newest_first,
                                                absl::string_view device_kind, int devices_per_node,
                                                absl::string_view runtime_id);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_PART_OF_NODE_H_
