// Times of collectives from whatever is known: measured curves first, the data
// sheet of the fabric else.

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

// Immutable once every shape a problem needs is resolved.
class CollectiveCosts {
 public:
  CollectiveCosts() = default;
  // `fabric` is absent when the links are unknown, or estimates are not allowed.
  CollectiveCosts(const ProfileSnapshot& profile, int devices_per_node,
                  std::optional<FabricTime> fabric, bool allow_estimates);

  // Finds the source of `collective` on each of `shapes`. What is missing or not
  // measured goes to `notes`. Of measurements, those of the shape itself or of as
  // many ranks with another stride come before the data sheet; those of unlike
  // groups come after it.
  void Resolve(Collective collective, const std::set<GroupShape>& shapes, ResolutionNotes& notes);

  // Time for a message counted as nccl-tests counts it. 0 for one rank. No
  // allocation.
  // REQUIRES: a fabric, or `Resolve` found a source for this collective and shape.
  Seconds Time(Collective collective, const GroupShape& shape, double message_bytes) const;

  // Whether `Time` may be asked.
  bool Knows(Collective collective, const GroupShape& shape) const {
    return fabric_.has_value() || measured_shapes_.contains({collective, shape});
  }
  bool has_fabric() const { return fabric_.has_value(); }

 private:
  CollectiveTimes measured_;
  std::optional<FabricTime> fabric_;
  bool allow_estimates_ = false;
  // Shapes the data sheet does not serve, because something measured does.
  std::set<std::pair<Collective, GroupShape>> measured_shapes_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_COLLECTIVE_COSTS_H_
