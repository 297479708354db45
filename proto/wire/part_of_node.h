// The snapshot for a job that gets a part of each node only.

#ifndef PARPLAN_PROTO_WIRE_PART_OF_NODE_H_
#define PARPLAN_PROTO_WIRE_PART_OF_NODE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "parplan/v1/profile.pb.h"
#include "planner/model/profile_snapshot.h"

namespace parplan {

// The smallest measured size of node of `device_kind` that `devices_per_node`
// devices are an even part of; `devices_per_node` itself where it was measured, or
// where no such node was.
int MeasuredNodeSize(absl::Span<const v1::Profile* const> profiles, absl::string_view device_kind,
                     int devices_per_node);

// The measurements that also hold for `devices_per_node` neighbouring devices of
// a larger node: every layer, and the collectives of groups that lie within the
// part. They were taken while the whole node was busy, so they are rather too
// high than too low. REQUIRES: `devices_per_node` divides the node of `whole`.
absl::StatusOr<ProfileSnapshot> PartOfNode(const ProfileSnapshot& whole, int devices_per_node);

// `MergeProfiles` for nodes of `devices_per_node` devices; where none was
// measured, the part of the smallest larger node. Errors as `MergeProfiles`.
absl::StatusOr<ProfileSnapshot> SnapshotOfNodes(absl::Span<const v1::Profile* const> newest_first,
                                                absl::string_view device_kind,
                                                int devices_per_node);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_PART_OF_NODE_H_
