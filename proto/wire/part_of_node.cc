#include "proto/wire/part_of_node.h"

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "proto/wire/digest.h"
#include "proto/wire/profile_selection.h"
#include "proto/wire/profile_wire.h"

namespace parplan {

int MeasuredNodeSize(absl::Span<const v1::Profile* const> profiles, absl::string_view device_kind,
                     int devices_per_node) {
  std::set<int> sizes;
  for (const v1::Profile* profile : profiles) {
    if (profile->device_kind() == device_kind) sizes.insert(profile->devices_per_node());
  }
  for (auto size = sizes.lower_bound(devices_per_node); size != sizes.end(); ++size) {
    if (devices_per_node > 0 && *size % devices_per_node == 0) return *size;
  }
  return devices_per_node;
}

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
  content.digest = SnapshotDigest(content);
  return ProfileSnapshot::Create(std::move(content));
}

absl::StatusOr<ProfileSnapshot> SnapshotOfNodes(absl::Span<const v1::Profile* const> newest_first,
                                                absl::string_view device_kind, int devices_per_node,
                                                absl::string_view runtime_id) {
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<v1::Profile> selected,
                           ProfilesForRuntime(newest_first, device_kind, runtime_id));
  std::vector<const v1::Profile*> pointers;
  for (const v1::Profile& profile : selected) pointers.push_back(&profile);
  const int measured_size = MeasuredNodeSize(pointers, device_kind, devices_per_node);
  PARPLAN_ASSIGN_OR_RETURN(ProfileSnapshot snapshot,
                           MergeProfiles(pointers, device_kind, measured_size));
  if (measured_size == devices_per_node) return snapshot;
  return PartOfNode(snapshot, devices_per_node);
}

}  // namespace parplan
