// The pure part of `ShapePlan`: which device counts to try, on what devices, and
// what to recommend.

#ifndef PARPLAN_SERVER_CORE_SHAPE_H_
#define PARPLAN_SERVER_CORE_SHAPE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parplan/v1/plan_service.pb.h"
#include "planner/model/topology.h"
#include "server/core/limits.h"
#include "server/core/plan_search.h"

namespace parplan {

// INVALID_ARGUMENT (SPEC_INVALID) with the path of the field below `field`, for
// example `offers[0]`, when a rule of `DeviceOffer` is broken.
absl::Status CheckOffer(const v1::DeviceOffer& offer, const std::string& field,
                        const Limits& limits);

// Rising, without repetition: the powers of two and the two ends of the range,
// as far as they are whole nodes or a divisor of one node. An end that is
// neither moves into the range to the next count that is. Empty when no count of
// the range is one. REQUIRES: passed `CheckOffer`.
std::vector<int> DeviceCounts(const v1::DeviceOffer& offer);

// The devices of a job that is given `device_count` of an offer: whole nodes, or
// a part of one. REQUIRES: `device_count` is one of `DeviceCounts(offer)`.
absl::StatusOr<Topology> OfferTopology(absl::string_view cluster, const v1::DeviceOffer& offer,
                                       int device_count);

// Returns an answer of `ExecuteOrder` as an option, without `offer_index` and `device_count`.
v1::ShapeOption ShapeOptionOf(const PlannerAnswer& answer);

// The index of what to ask for, by the rule of
// `ShapePlanResponse.recommended_option_index`; of equal counts the faster step,
// then the first. Absent when nothing fits.
std::optional<int> RecommendedOption(
    const google::protobuf::RepeatedPtrField<v1::ShapeOption>& options);

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_SHAPE_H_
