#include "proto/wire/node_count.h"

#include <cstdint>
#include <limits>

#include "base/error.h"

namespace parplan {

absl::Status SetNodeCount(int node_count, absl::string_view field, v1::ClusterTopology* topology) {
  if (topology->node_groups_size() != 1 || topology->node_groups(0).node_names_size() != 0) {
    return FieldError(Reason::kSpecInvalid, field,
                      "needs a topology with one node group that names no nodes");
  }
  const int devices_per_node = topology->node_groups(0).devices_per_node();
  const int64_t device_count = int64_t{node_count} * devices_per_node;
  if (device_count > std::numeric_limits<int32_t>::max()) {
    return FieldError(Reason::kSpecInvalid, field, "makes too many devices");
  }
  topology->mutable_node_groups(0)->set_node_count(node_count);
  auto& tiers = *topology->mutable_link_tiers();
  if (tiers.empty() || tiers[tiers.size() - 1].reach_device_count() >= device_count) {
    return absl::OkStatus();
  }
  if (tiers.size() == 1 || tiers[tiers.size() - 1].reach_device_count() <= devices_per_node) {
    tiers.Add()->set_tier_id("fabric");
  }
  tiers[tiers.size() - 1].set_reach_device_count(static_cast<int32_t>(device_count));
  return absl::OkStatus();
}

}  // namespace parplan
