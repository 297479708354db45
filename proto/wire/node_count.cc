#include "proto/wire/node_count.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace parplan {
namespace {

// Returns `fabric`, or `fabric-N` with the smallest N from 2 on, if tiers have those names.
std::string NewTierId(const v1::ClusterTopology& topology) {
  std::string id = "fabric";
  const auto has_id = [&id](const v1::LinkTier& tier) { return tier.tier_id() == id; };
  for (int number = 2; absl::c_any_of(topology.link_tiers(), has_id); ++number) {
    id = absl::StrCat("fabric-", number);
  }
  return id;
}

}  // namespace

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
    std::string id = NewTierId(*topology);
    tiers.Add()->set_tier_id(std::move(id));
  }
  tiers[tiers.size() - 1].set_reach_device_count(static_cast<int32_t>(device_count));
  return absl::OkStatus();
}

}  // namespace parplan
