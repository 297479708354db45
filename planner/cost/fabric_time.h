// How long collectives take where nobody has measured them.

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
// Rings as NCCL builds them: a group of `r` ranks a node enters and leaves every
// node through the adapters of its own ranks, so that it has `r / devices_per_node`
// of the node's bandwidth while the other groups of the shape use the rest; a group
// of one rank a node (data parallelism beside tensor parallelism) gets one share.
// Inside and between nodes the ring streams at the slower of the two rates.
class FabricTime {
 public:
  FabricTime(const FabricDescription& fabric, const Coefficients& coefficients,
             int devices_per_node);

  // Time for a message counted as nccl-tests counts it: all-reduce the vector of a
  // rank, all-gather and reduce-scatter the whole vector, all-to-all what a rank
  // holds, send-receive what one rank sends. Every group of the shape works at once.
  // 0 for one rank or no bytes. O(1).
  //
  // The quicker of a ring and, for an all-reduce, a double binary tree, which has
  // 0.92 of the ring's rate (NCCL, src/graph/tuning.cc) but few steps.
  Seconds Time(Collective collective, const GroupShape& shape, double message_bytes) const;

 private:
  int devices_per_node_;
  double intra_bytes_per_second_;
  double inter_bytes_per_second_;  // share of one device when all send
  double inter_cap_;               // what one device alone can send
  double intra_latency_;
  double inter_latency_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_FABRIC_TIME_H_
