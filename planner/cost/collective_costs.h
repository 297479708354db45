// Times of collectives: from measured curves if there are any, else from the data sheet of the
// fabric. `GroupCosts` has one, and so have the operator times of the ILP.

#ifndef PARPLAN_PLANNER_COST_COLLECTIVE_COSTS_H_
#define PARPLAN_PLANNER_COST_COLLECTIVE_COSTS_H_

#include <optional>
#include <set>
#include <utility>

#include "base/units.h"
#include "planner/cost/collective_time.h"
#include "planner/cost/fabric_time.h"
#include "planner/cost/layer_needs.h"
#include "planner/model/profile_snapshot.h"

namespace parplan {

// The times of all collectives a problem needs. Immutable once every shape is resolved.
class CollectiveCosts {
 public:
  // Costs that know no time; to be assigned to.
  CollectiveCosts() = default;
  // `fabric` is absent when the links are unknown, and ignored unless estimates are allowed. Copies
  // the points of `profile`.
  CollectiveCosts(const ProfileSnapshot& profile, int devices_per_node,
                  std::optional<FabricTime> fabric, bool allow_estimates);

  // Finds the source of `collective` for each of `shapes`. Measurements of the shape itself or half
  // of its all-reduce come first, then measurements of as many ranks with another stride, then the
  // data sheet or, without one, measurements of unlike groups. The data sheet and unlike groups
  // need `allow_estimates`. Shapes without a source are added to `notes.missing`, and those of any
  // source but the first two to `notes.estimated`, again with each call.
  void Resolve(Collective collective, const std::set<GroupShape>& shapes, ResolutionNotes& notes);

  // Returns the time for a message whose size is counted as in nccl-tests (fabric_time.h); 0 for
  // one rank or no bytes. Allocates nothing. REQUIRES: `Knows(collective, shape)`, or the shape is
  // one rank; aborts otherwise.
  Seconds Time(Collective collective, const GroupShape& shape, double message_bytes) const;

  // Returns whether there is a fabric, or `Resolve` found measurements, if only of unlike groups.
  bool Knows(Collective collective, const GroupShape& shape) const {
    return fabric_.has_value() || measured_shapes_.contains({collective, shape});
  }
  // Returns whether times can be estimated from the data sheet of the links: there is one, and
  // estimates are allowed.
  bool has_fabric() const { return fabric_.has_value(); }

 private:
  CollectiveTimes measured_;
  std::optional<FabricTime> fabric_;
  bool allow_estimates_ = false;
  // Shapes whose times come from measurements and not from the data sheet.
  std::set<std::pair<Collective, GroupShape>> measured_shapes_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_COLLECTIVE_COSTS_H_
