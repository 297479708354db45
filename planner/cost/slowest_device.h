// The spread of devices of one kind: those that train together wait for the slowest. `LayerSource`
// multiplies the estimated times of devices (not of the host) by the factor for all devices of a
// node group.

#ifndef PARPLAN_PLANNER_COST_SLOWEST_DEVICE_H_
#define PARPLAN_PLANNER_COST_SLOWEST_DEVICE_H_

#include "planner/model/coefficients.h"

namespace parplan {

// Returns the factor by which the slowest of `device_count` devices computes longer than the
// average one: 1 + `kDeviceSpread` times the expected largest of as many normal deviates (Blom's
// approximation). Speed and power limits differ from chip to chip (Sinha et al., "Not All GPUs Are
// Created Equal", SC'22). 1 for one device or fewer. Too slow for inner loops.
double SlowestDeviceFactor(int device_count, const Coefficients& coefficients);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_SLOWEST_DEVICE_H_
