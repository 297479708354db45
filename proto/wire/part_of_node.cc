#include "proto/wire/part_of_node.h"

#include <cstdint>
#include <utility>

#include "base/status_macros.h"
#include "proto/wire/digest.h"
#include "proto/wire/snapshot_builder.h"

namespace parplan {

absl::StatusOr<ProfileSnapshot> PartOfNode(const ProfileSnapshot& whole, int devices_per_node) {
  ProfileSnapshot::Content content;
  content.device_kind = whole.device_kind();
  content.devices_per_node = devices_per_node;
  content.layers = whole.layers();
  for (const CollectivePoint& point : whole.collectives()) {
    if (int64_t{point.participant_count} * point.rank_stride <= devices_per_node) {
      content.collectives.push_back(point);
    }
  }
  content.optimizers = whole.optimizers();
  content.overlap_slowdown = whole.overlap_slowdown();
  content.context_memory = whole.context_memory();
  content.communicator_memory = whole.communicator_memory();
  content.digest = SnapshotDigest(content);
  return ProfileSnapshot::Create(std::move(content));
}

absl::StatusOr<ProfileSnapshot> SnapshotOfNodes(absl::Span<const v1::Profile* const> newest_first,
                                                absl::string_view device_kind, int devices_per_node,
                                                absl::string_view runtime_id) {
  SnapshotBuilder builder(device_kind, devices_per_node, runtime_id);
  for (const v1::Profile* const profile : newest_first) {
    PARPLAN_RETURN_IF_ERROR(builder.Add(*profile).status());
  }
  return builder.Finish();
}

}  // namespace parplan
