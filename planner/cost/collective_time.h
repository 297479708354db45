// How long collectives take on groups of ranks of a given shape.

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

// A group of `participant_count` ranks, neighbours `rank_stride` apart. All
// groups of the shape that fit side by side work at once.
struct GroupShape {
  int participant_count = 1;
  int rank_stride = 1;
  friend auto operator<=>(const GroupShape&, const GroupShape&) = default;
};

// "8 ranks, stride 1".
std::string GroupShapeText(const GroupShape& shape);

// Ranks of one group that share a node of `devices_per_node` devices, of the group that lies
// on most nodes. Groups side by side begin at multiples of participant_count * rank_stride;
// where that neither divides a node nor is a multiple of one, some lie across its edge. Pairs
// that send and receive begin anywhere: of them those within a node are meant where there
// are any, and whoever plans asks which leave it.
int RanksPerNode(Collective collective, const GroupShape& shape, int devices_per_node);

// Factor from time to bus bandwidth (nccl-tests): what one link carries over
// the message size. 2(n-1)/n for all-reduce, (n-1)/n for all-gather,
// reduce-scatter and all-to-all, 1 for send-receive and broadcast.
double BusFactor(Collective collective, int participant_count);

// Curves for the shapes a problem needs. Immutable after resolution.
class CollectiveTimes {
 public:
  // Where a curve comes from.
  enum class Source {
    // Points of this collective and shape.
    kMeasured,
    // Half an all-reduce, for all-gather and reduce-scatter, as usual: an
    // all-reduce is one after the other.
    kHalfAllReduce,
    // A group of as many ranks, as many of them on each node, with another
    // stride: the nearest one.
    kOtherStride,
    // Another shape of equal reach, scaled by the bus factor; or, failing
    // that, of unequal reach, scaled by ranks per node too.
    kEstimated,
    // Nothing to go by.
    kMissing,
  };

  CollectiveTimes() = default;

  // Keeps the points of `profile`, on nodes of `devices_per_node` devices.
  //
  // A shape with a single point (a bandwidth, in effect) borrows the latency
  // of the best-measured shape of equal collective and size of group: its
  // curve plus the difference at the single point, in proportion to size.
  CollectiveTimes(const ProfileSnapshot& profile, int devices_per_node);

  // Makes `Time` ready for a shape and says from what. Idempotent.
  Source Resolve(Collective collective, const GroupShape& shape);

  // Time for a message counted as nccl-tests counts it. 0 for one rank.
  // REQUIRES: `Resolve` gave no `kMissing` for this collective and shape.
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
