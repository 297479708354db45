// The question of `planctl shape` and `planctl recommend`. Both commands send it.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_SHAPE_REQUEST_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_SHAPE_REQUEST_H_

#include <functional>

#include "parplan/v1/plan.pb.h"
#include "parplan/v1/plan_service.pb.h"

namespace parplan::planctl {

// Numbers of devices that an offer ranges over, both included.
struct DeviceRange {
  int min = 1;
  int max = 1;
};

// Returns the question for model, batch size and options of `spec` in which each node group is an
// offer, in their order, with the devices that `range` returns for it, whatever its number of
// nodes. An offer has the kind and memory of the devices, the size of a node and the fabric; names
// of nodes and link tiers, which change no prediction, are left out. `range` is not empty. Nothing
// is checked: the server does.
v1::ShapePlanRequest ShapeRequestOf(
    const v1::PlanSpec& spec, const std::function<DeviceRange(const v1::NodeGroup& group)>& range);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_SHAPE_REQUEST_H_
