// Collectives as a list: kind, group, size and number. `LayerTraffic` makes and prices those of a
// layer, `GroupCosts` makes those between layers and stages; `CollectivesOfStep` shows both.

#ifndef PARPLAN_PLANNER_COST_LAYER_COLLECTIVES_H_
#define PARPLAN_PLANNER_COST_LAYER_COLLECTIVES_H_

#include <array>

#include "base/check.h"
#include "planner/cost/collective_time.h"
#include "planner/model/profile_snapshot.h"

namespace parplan {

// Size of the sum of a step's loss: one number of 32 bits.
inline constexpr double kLossBytes = 4.0;

// Equal collectives of one pass of a layer over a micro-batch; of one reduction of its gradients or
// one gathering of its parameters; of one change of layout, in both passes; or of one message
// between stages. How often a step has these is not in the list: `CollectivesOfStep` counts it.
struct LayerCollective {
  Collective collective = Collective::kAllReduce;
  GroupShape group;
  // Message, whose size is counted as in nccl-tests.
  double bytes = 0.0;
  // Number of calls; a fraction if layers share a message.
  double count = 0.0;
  // The part of them that full recomputation repeats. Ignored in backward passes.
  double repeated = 0.0;
};

// A short list of collectives, in the order of their calls, that allocates nothing.
class CollectiveList {
 public:
  // More than any pass has: the list checks it.
  static constexpr int kCapacity = 16;

  // The calls, for a loop; valid until the next `Add`.
  const LayerCollective* begin() const { return calls_.data(); }
  const LayerCollective* end() const { return calls_.data() + size_; }

  // Appends `count` calls, of which full recomputation repeats all but `not_repeated`. Does nothing
  // for no calls or a group of one rank. REQUIRES: there is room, else it aborts.
  void Add(Collective collective, const GroupShape& group, double bytes, double count,
           double not_repeated = 0.0) {
    if (count <= 0.0 || group.participant_count <= 1) return;
    PARPLAN_CHECK(size_ < kCapacity);
    calls_[size_++] = {collective, group, bytes, count, count - not_repeated};
  }

 private:
  std::array<LayerCollective, kCapacity> calls_;
  int size_ = 0;
};

// The collectives of a layer, by pass. Those of data parallelism gather all parameters (forward)
// and reduce all gradients (backward), once each.
struct PassCollectives {
  CollectiveList forward;
  CollectiveList backward;
};

// The collectives of data parallelism.
struct DataCollectiveLists : PassCollectives {
  // The sum of each rank's shard of all gradients over the groups of ranks that share states, once,
  // behind `backward`. Empty if there is one group.
  CollectiveList between_groups;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_LAYER_COLLECTIVES_H_
