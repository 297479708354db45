#include "planner/cost/collective_time.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace parplan {
namespace {

using Points = std::vector<SizeCurve::Point>;

SizeCurve Scaled(const SizeCurve& curve, double factor) {
  Points points = curve.points();
  for (SizeCurve::Point& point : points) point.duration = point.duration * factor;
  return SizeCurve(std::move(points));
}

// Returns `reference` with the bandwidth of `single`: the difference at the size of `single` is
// spread in proportion to size, so the latency stays.
SizeCurve WithBandwidthOf(const SizeCurve& reference, const SizeCurve::Point& single) {
  const Seconds difference = single.duration - reference.At(single.size);
  Points points;
  for (const SizeCurve::Point& point : reference.points()) {
    if (point.size == single.size) continue;
    const Seconds duration = point.duration + difference * (point.size / single.size);
    // Noise may make the difference larger than the reference at small sizes; such a point is
    // dropped.
    if (duration > Seconds()) points.push_back({point.size, duration});
  }
  points.push_back(single);
  return SizeCurve(std::move(points));
}

}  // namespace

std::string GroupShapeText(const GroupShape& shape) {
  return absl::StrCat(shape.participant_count, " ranks, stride ", shape.rank_stride);
}

int RanksPerNode(Collective collective, const GroupShape& shape, int devices_per_node) {
  const int stride = shape.rank_stride;
  if (stride >= devices_per_node) return 1;
  const int within = std::min(shape.participant_count, devices_per_node / stride);
  const int block = shape.participant_count * stride;
  const bool is_aligned = devices_per_node % block == 0 ||
                          (block % devices_per_node == 0 && within * stride == devices_per_node);
  if (is_aligned || collective == Collective::kSendReceive) return within;
  int most_nodes = 1;
  const int period = std::lcm(block, devices_per_node);
  for (int begin = 0; begin < period; begin += block) {
    for (int first = begin; first < begin + stride; ++first) {
      int nodes = 1;
      for (int rank = first + stride; rank < begin + block; rank += stride) {
        if (rank / devices_per_node != (rank - stride) / devices_per_node) ++nodes;
      }
      most_nodes = std::max(most_nodes, nodes);
    }
  }
  return (shape.participant_count + most_nodes - 1) / most_nodes;
}

double BusFactor(Collective collective, int participant_count) {
  const double n = participant_count;
  switch (collective) {
    case Collective::kAllReduce:
      return 2.0 * (n - 1.0) / n;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return (n - 1.0) / n;
    case Collective::kSendReceive:
    case Collective::kBroadcast:
      return 1.0;
  }
  return 1.0;
}

CollectiveTimes::CollectiveTimes(const ProfileSnapshot& profile, int devices_per_node)
    : devices_per_node_(devices_per_node) {
  std::map<Key, Points> points;
  for (const CollectivePoint& point : profile.collectives()) {
    points[{point.collective, {point.participant_count, point.rank_stride}}].push_back(
        {point.message_size.as_double(), point.duration});
  }
  for (auto& [key, list] : points) measured_[key] = SizeCurve(std::move(list));

  std::map<Key, SizeCurve> completed;
  for (const auto& [key, curve] : measured_) {
    if (curve.points().size() != 1) continue;
    const SizeCurve* reference = nullptr;
    for (const auto& [other, other_curve] : measured_) {
      if (other.collective != key.collective ||
          other.shape.participant_count != key.shape.participant_count) {
        continue;
      }
      const size_t count = other_curve.points().size();
      if (count > 1 && (reference == nullptr || count > reference->points().size())) {
        reference = &other_curve;
      }
    }
    if (reference != nullptr) completed[key] = WithBandwidthOf(*reference, curve.points().front());
  }
  for (auto& [key, curve] : completed) measured_[key] = std::move(curve);
}

CollectiveTimes::Source CollectiveTimes::Resolve(Collective collective, const GroupShape& shape) {
  const Key key{collective, shape};
  const auto known = resolved_.find(key);
  if (known != resolved_.end()) return known->second.source;
  Resolved resolved = Find(key);
  if (resolved.source == Source::kMissing) resolved = FindOtherStride(key);
  if (resolved.source == Source::kMissing) resolved = Estimate(key);
  const Source source = resolved.source;
  resolved_.emplace(key, std::move(resolved));
  return source;
}

CollectiveTimes::Resolved CollectiveTimes::Find(const Key& key) const {
  if (const auto found = measured_.find(key); found != measured_.end()) {
    return {found->second, Source::kMeasured};
  }
  if (key.collective == Collective::kAllGather || key.collective == Collective::kReduceScatter) {
    const auto all_reduce = measured_.find({Collective::kAllReduce, key.shape});
    if (all_reduce != measured_.end()) {
      return {Scaled(all_reduce->second, 0.5), Source::kHalfAllReduce};
    }
  }
  return {};
}

CollectiveTimes::Resolved CollectiveTimes::FindOtherStride(const Key& key) const {
  const int count = key.shape.participant_count;
  const int ranks_per_node = RanksPerNode(key.collective, key.shape, devices_per_node_);
  std::optional<double> best_distance;
  Resolved best;
  for (const auto& [other, curve] : measured_) {
    if (other.shape.participant_count != count ||
        RanksPerNode(key.collective, other.shape, devices_per_node_) != ranks_per_node) {
      continue;
    }
    const Resolved found = Find({key.collective, other.shape});
    if (found.source == Source::kMissing) continue;
    const double distance =
        std::abs(std::log2(static_cast<double>(other.shape.rank_stride) / key.shape.rank_stride));
    if (!best_distance.has_value() || distance < *best_distance) {
      best_distance = distance;
      best = {found.curve, Source::kOtherStride};
    }
  }
  return best;
}

CollectiveTimes::Resolved CollectiveTimes::Estimate(const Key& key) const {
  const int ranks_per_node = RanksPerNode(key.collective, key.shape, devices_per_node_);
  const bool crosses_nodes = key.shape.participant_count > ranks_per_node;
  // The most similar shape: same reach first, then as many ranks per node, then
  // the nearest group size, then the nearest stride. The order of the map
  // breaks ties.
  using Distance = std::tuple<double, double, int>;
  std::optional<Distance> best_distance;
  Key best_key = key;
  for (const auto& [other, curve] : measured_) {
    const bool half =
        other.collective == Collective::kAllReduce &&
        (key.collective == Collective::kAllGather || key.collective == Collective::kReduceScatter);
    if (other.collective != key.collective && !half) continue;
    const int other_per_node = RanksPerNode(key.collective, other.shape, devices_per_node_);
    if ((other.shape.participant_count > other_per_node) != crosses_nodes) continue;
    const Distance distance(
        std::abs(std::log2(static_cast<double>(other_per_node) / ranks_per_node)),
        std::abs(std::log2(static_cast<double>(other.shape.participant_count) /
                           key.shape.participant_count)),
        std::abs(other.shape.rank_stride - key.shape.rank_stride));
    if (!best_distance.has_value() || distance < *best_distance) {
      best_distance = distance;
      best_key = other;
    }
  }
  if (!best_distance.has_value()) return {};
  // Groups have equal bus bandwidth, unless fewer of their ranks share a node's adapters; the
  // group's share of these then shrinks as well.
  double factor = BusFactor(key.collective, key.shape.participant_count) /
                  BusFactor(best_key.collective, best_key.shape.participant_count);
  if (crosses_nodes) {
    factor *= static_cast<double>(RanksPerNode(key.collective, best_key.shape, devices_per_node_)) /
              ranks_per_node;
  }
  return {Scaled(measured_.at(best_key), factor), Source::kEstimated};
}

Seconds CollectiveTimes::Time(Collective collective, const GroupShape& shape,
                              double message_bytes) const {
  if (shape.participant_count <= 1) return Seconds();
  const auto found = resolved_.find({collective, shape});
  PARPLAN_CHECK(found != resolved_.end() && found->second.source != Source::kMissing);
  return found->second.curve.At(message_bytes);
}

}  // namespace parplan
