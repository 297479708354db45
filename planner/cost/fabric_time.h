// Times of collectives that were not measured, from the data sheets of the links. `CollectiveCosts`
// and the operator times of the ILP estimate by it.

#ifndef PARPLAN_PLANNER_COST_FABRIC_TIME_H_
#define PARPLAN_PLANNER_COST_FABRIC_TIME_H_

#include "base/units.h"
#include "planner/cost/collective_time.h"
#include "planner/model/coefficients.h"
#include "planner/model/hardware.h"
#include "planner/model/profile_snapshot.h"

namespace parplan {

// Latency and bandwidth over two tiers. Plain data.
//
// Rings are those that NCCL builds. A group with `r` ranks per node enters and leaves every node
// through the adapters of its own ranks, so it has `r / devices_per_node` of the node's bandwidth
// while the other groups of the shape use the rest. The ring streams at the slower of the rates
// inside and between nodes.
class FabricTime {
 public:
  // Copies the numbers it needs. `devices_per_node` is above 0, which is not checked.
  FabricTime(const FabricDescription& fabric, const Coefficients& coefficients,
             int devices_per_node);

  // Returns the time for a message whose size is counted as in nccl-tests: for an all-reduce the
  // vector of one rank, for all-gather and reduce-scatter the whole vector, for an all-to-all the
  // bytes one rank holds, for send-receive those one rank sends, and for a broadcast, which is
  // priced as a send-receive, the whole vector. Every group of the shape communicates at the same
  // time. 0 for one rank or no bytes. O(1).
  //
  // The time of an all-reduce, an all-gather or a reduce-scatter is that of a ring or, for an
  // all-reduce across nodes, of a double binary tree if that is quicker: it has 0.92 of the ring's
  // rate (NCCL, src/graph/tuning.cc) but few steps. An all-to-all sends all its parts at once.
  Seconds Time(Collective collective, const GroupShape& shape, double message_bytes) const;

 private:
  int devices_per_node_;
  double intra_bytes_per_second_;
  double inter_bytes_per_second_;  // share of one device if all send
  double inter_cap_;               // rate of one device that sends alone
  double intra_latency_;
  double inter_latency_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_FABRIC_TIME_H_
