#include "planner/cost/fabric_time.h"

#include <algorithm>
#include <cmath>

namespace parplan {
namespace {

// Rate of double binary trees divided by that of rings (NCCL, src/graph/tuning.cc).
constexpr double kTreeRate = 0.92;

}  // namespace

FabricTime::FabricTime(const FabricDescription& fabric, const Coefficients& coefficients,
                       int devices_per_node)
    : devices_per_node_(devices_per_node) {
  const double intra_efficiency = coefficients[Coefficient::kIntraNodeEfficiency];
  intra_bytes_per_second_ = fabric.intra_node.bytes_per_second_per_device * intra_efficiency;
  if (fabric.intra_node.bytes_per_second_per_node > 0.0) {
    intra_bytes_per_second_ =
        std::min(intra_bytes_per_second_,
                 fabric.intra_node.bytes_per_second_per_node * intra_efficiency / devices_per_node);
  }
  const double inter_efficiency = coefficients[Coefficient::kInterNodeEfficiency];
  inter_cap_ = fabric.inter_node.bytes_per_second_per_device * inter_efficiency;
  inter_bytes_per_second_ = inter_cap_;
  if (fabric.inter_node.bytes_per_second_per_node > 0.0) {
    inter_bytes_per_second_ = std::min(inter_cap_, fabric.inter_node.bytes_per_second_per_node *
                                                       inter_efficiency / devices_per_node);
  }
  // The coefficient is the latency of software, the data sheet has that of the wire.
  intra_latency_ =
      std::max(coefficients[Coefficient::kCollectiveLatency], fabric.intra_node.latency.value());
  inter_latency_ =
      std::max(coefficients[Coefficient::kNetworkLatency], fabric.inter_node.latency.value());
}

Seconds FabricTime::Time(Collective collective, const GroupShape& shape,
                         double message_bytes) const {
  const int count = shape.participant_count;
  if (count <= 1 || message_bytes <= 0.0) return Seconds();
  const int ranks_per_node = std::min(count, RanksPerNode(collective, shape, devices_per_node_));
  const int node_count = (count + ranks_per_node - 1) / ranks_per_node;
  const bool leaves_node = node_count > 1;
  // Rate of one rank of the group.
  const double outward = inter_bytes_per_second_;
  const double ring_rate = leaves_node ? std::min(ranks_per_node > 1 ? intra_bytes_per_second_
                                                                     : outward * ranks_per_node,
                                                  outward * ranks_per_node)
                                       : intra_bytes_per_second_;
  const double factor = BusFactor(collective, count);
  // Once around the ring.
  const double ring_latency =
      (node_count - 1) * inter_latency_ + (count - node_count) * intra_latency_;
  switch (collective) {
    case Collective::kAllReduce: {
      const double ring = 2.0 * ring_latency + factor * message_bytes / ring_rate;
      const double depth = std::ceil(std::log2(static_cast<double>(node_count)));
      const double tree = 2.0 * (depth * inter_latency_ + (ranks_per_node - 1) * intra_latency_) +
                          factor * message_bytes / (ring_rate * kTreeRate);
      return Seconds::Of(leaves_node ? std::min(ring, tree) : ring);
    }
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return Seconds::Of(ring_latency + factor * message_bytes / ring_rate);
    case Collective::kAllToAll: {
      // Every rank sends an equal part to each; parts for other nodes use its share
      // of the adapters.
      const double part = message_bytes / count;
      const double inside = (ranks_per_node - 1) * part / intra_bytes_per_second_;
      const double outside = (count - ranks_per_node) * part / outward;
      return Seconds::Of((leaves_node ? inter_latency_ : intra_latency_) +
                         std::max(inside, leaves_node ? outside : 0.0));
    }
    case Collective::kSendReceive:
    case Collective::kBroadcast:
      break;
  }
  return Seconds::Of((leaves_node ? inter_latency_ : intra_latency_) +
                     message_bytes / (leaves_node ? outward : intra_bytes_per_second_));
}

}  // namespace parplan
