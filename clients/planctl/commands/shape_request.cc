#include "clients/planctl/commands/shape_request.h"

#include "absl/strings/str_cat.h"

namespace parplan::planctl {

v1::ShapePlanRequest ShapeRequestOf(
    const v1::PlanSpec& spec, const std::function<DeviceRange(const v1::NodeGroup& group)>& range) {
  v1::ShapePlanRequest request;
  request.set_parent(absl::StrCat("clusters/", spec.topology().cluster()));
  *request.mutable_model() = spec.model();
  request.set_global_batch_size(spec.global_batch_size());
  *request.mutable_options() = spec.options();
  for (const v1::NodeGroup& group : spec.topology().node_groups()) {
    const DeviceRange devices = range(group);
    v1::DeviceOffer& offer = *request.add_offers();
    offer.set_device_kind(group.device_kind());
    offer.set_devices_per_node(group.devices_per_node());
    offer.set_device_memory_bytes(group.device_memory_bytes());
    offer.set_reserved_memory_bytes(group.reserved_memory_bytes());
    offer.set_min_device_count(devices.min);
    offer.set_max_device_count(devices.max);
    offer.set_fabric_id(spec.topology().fabric_id());
  }
  return request;
}

}  // namespace parplan::planctl
