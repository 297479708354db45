// Measured times of collectives, by the shape of the group of ranks. `CollectiveCosts` reads
// measured curves from it, and the server's report of a snapshot the shapes and bus factors.

#ifndef PARPLAN_PLANNER_COST_COLLECTIVE_TIME_H_
#define PARPLAN_PLANNER_COST_COLLECTIVE_TIME_H_

#include <compare>
#include <map>
#include <string>
#include <vector>

#include "base/units.h"
#include "planner/cost/size_curve.h"
#include "planner/model/profile_snapshot.h"

namespace parplan {

// A group of `participant_count` ranks, neighbours `rank_stride` apart. All groups of the shape
// that fit side by side communicate at the same time.
struct GroupShape {
  int participant_count = 1;
  int rank_stride = 1;
  friend auto operator<=>(const GroupShape&, const GroupShape&) = default;
};

// Returns a description such as "8 ranks, stride 1".
std::string GroupShapeText(const GroupShape& shape);

// Returns how many ranks of a group share one node of `devices_per_node` devices, for the group
// that spans most nodes. Groups side by side begin at multiples of participant_count * rank_stride;
// if that neither divides a node nor is a multiple of one, some groups lie across its edge. Pairs
// that send and receive begin anywhere: the result is for pairs within a node if there are any, and
// the caller finds out which pairs leave it. At least 1. REQUIRES, unchecked: all three numbers are
// above 0.
int RanksPerNode(Collective collective, const GroupShape& shape, int devices_per_node);

// Returns the bytes that one link carries as a multiple of the message size, the bus factor of
// nccl-tests: 2(n-1)/n for all-reduce, (n-1)/n for all-gather, reduce-scatter and all-to-all, 1 for
// send-receive and broadcast.
double BusFactor(Collective collective, int participant_count);

// Measured curves for the shapes a problem needs. Immutable after resolution, and then safe to use
// from any thread.
class CollectiveTimes {
 public:
  // The source of a curve.
  enum class Source {
    // Points of this collective and shape.
    kMeasured,
    // Half an all-reduce, for all-gather and reduce-scatter: an all-reduce is one after the other.
    kHalfAllReduce,
    // The nearest other stride of a group with as many ranks, and as many of them on each node.
    kOtherStride,
    // Another shape that also stays within a node, or also crosses nodes: the one with the most
    // similar number of ranks per node, then of ranks, then the nearest stride. Scaled by the bus
    // factor and, across nodes, by the ranks per node. For all-gather and reduce-scatter also an
    // all-reduce.
    kEstimated,
    // No measurement to start from.
    kMissing,
  };

  // Without points: every shape is `kMissing`.
  CollectiveTimes() = default;

  // Keeps the points of `profile`, on nodes of `devices_per_node` devices.
  //
  // A shape with a single point (a bandwidth, in effect) borrows the latency
  // of the best-measured shape of equal collective and size of group: its
  // curve plus the difference at the single point, in proportion to size.
  CollectiveTimes(const ProfileSnapshot& profile, int devices_per_node);

  // Prepares `Time` for a shape and returns its source. Idempotent.
  Source Resolve(Collective collective, const GroupShape& shape);

  // Returns the time for a message whose size is counted as in nccl-tests; 0 for one rank.
  // REQUIRES: `Resolve` returned another source than `kMissing` for this collective and shape, or
  // the shape is one rank. Aborts otherwise.
  Seconds Time(Collective collective, const GroupShape& shape, double message_bytes) const;

 private:
  struct Key {
    Collective collective;
    GroupShape shape;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Resolved {
    SizeCurve curve;
    Source source = Source::kMissing;
  };

  Resolved Find(const Key& key) const;
  Resolved FindOtherStride(const Key& key) const;
  Resolved Estimate(const Key& key) const;

  int devices_per_node_ = 1;
  std::map<Key, SizeCurve> measured_;
  std::map<Key, Resolved> resolved_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_COLLECTIVE_TIME_H_
