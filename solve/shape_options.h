// The parts of a shape that search nothing: the device counts to try, their topology, and the
// recommendation. An offer (`DeviceOffer` of plan_service.proto) is a kind of device and a range of
// how many of them a job can have. `SearchShapes` (solve/shape_search.h) lists counts and makes
// options by it; the server's `ShapeCore` and offline planning of planctl check offers, count tries
// and make topologies by it. Pure functions.

#ifndef PARPLAN_SOLVE_SHAPE_OPTIONS_H_
#define PARPLAN_SOLVE_SHAPE_OPTIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parplan/v1/plan_service.pb.h"
#include "planner/model/planning_result.h"
#include "planner/model/topology.h"

namespace parplan {

// Checks an offer: it has a device kind; `devices_per_node` and `min_device_count` are at least 1,
// its `max_device_count` is from its minimum to the parameter's; `device_memory_bytes` is above 0,
// `reserved_memory_bytes` from 0 to below it; `devices_per_switch` is 0 (unknown) or a multiple of
// `devices_per_node`; `fabric_id` is empty or a name of the built-in library of fabrics.
// INVALID_ARGUMENT (SPEC_INVALID) with the path of the first field that breaks a rule, below
// `field`, which is the path of the offer, for example `offers[0]`.
absl::Status CheckOffer(const v1::DeviceOffer& offer, const std::string& field,
                        int max_device_count);

// Lists the device counts to try, ascending and without duplicates: the powers of two in the range
// of the offer and the two ends of the range, if they are whole nodes or divide one node. An end
// that is neither is replaced by the nearest count inside the range that is. Empty if the range has
// no such count. REQUIRES, unchecked: `offer` passed `CheckOffer`.
std::vector<int> DeviceCounts(const v1::DeviceOffer& offer);

// Returns how many counts all offers have together.
int CountOfTries(const std::vector<v1::DeviceOffer>& offers);

// Returns the topology of a job that is given `device_count` devices of an offer: one node group of
// whole nodes, or of a part of one. Its link tiers are the node; the switch, if it has more devices
// than a node and fewer than the job; and all devices, if these are more. INVALID_ARGUMENT
// (SPEC_INVALID) for a cluster or device kind that `Topology::Create` refuses. REQUIRES:
// `device_count` is one of `DeviceCounts(offer)`; not checked.
absl::StatusOr<Topology> OfferTopology(absl::string_view cluster, const v1::DeviceOffer& offer,
                                       int device_count);

// Returns the best plan for a number of devices as an option, or that nothing fits, without
// `offer_index` and `device_count`.
v1::ShapeOption ShapeOptionOf(const PlanFound& found);
v1::ShapeOption ShapeOptionOf(const NothingFits& nothing);

// Returns the index in `options`, from 0, of the recommended option
// (`ShapePlanResponse.recommended_option_index`): the one with the fewest devices of the feasible
// ones whose throughput per device is at least 0.9 of the best, and whose step takes at most 1.1 of
// the fastest with as many devices; among equal counts the faster step, then the first. Absent if
// no option is feasible. REQUIRES, unchecked: each option has its `device_count`, above 0.
std::optional<int> RecommendedOption(
    const google::protobuf::RepeatedPtrField<v1::ShapeOption>& options);

}  // namespace parplan

#endif  // PARPLAN_SOLVE_SHAPE_OPTIONS_H_
