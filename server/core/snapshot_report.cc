#include "server/core/snapshot_report.h"

#include <algorithm>
#include <map>
#include <utility>

#include "planner/cost/collective_time.h"

namespace parplan {

namespace {

absl::Time ToTime(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

}  // namespace

absl::Time MeasureTime(const v1::Profile& profile) {
  const absl::Time stored = ToTime(profile.create_time());
  if (!profile.provenance().has_measure_time()) return stored;
  return std::min(ToTime(profile.provenance().measure_time()), stored);
}

std::vector<MeasuredBandwidth> BandwidthsOf(const ProfileSnapshot& snapshot, int devices_per_node) {
  const std::vector<CollectivePoint>& points = snapshot.collectives();
  std::map<std::pair<LinkReach, Collective>, double> best;
  for (size_t i = 0; i < points.size(); ++i) {
    const CollectivePoint& point = points[i];
    const GroupShape shape = {point.participant_count, point.rank_stride};
    // Size is the last sort key, so the largest message of a shape stands before the next shape.
    const bool is_largest = i + 1 == points.size() ||
                            points[i + 1].collective != point.collective ||
                            points[i + 1].participant_count != point.participant_count ||
                            points[i + 1].rank_stride != point.rank_stride;
    if (!is_largest) continue;
    const bool is_within =
        RanksPerNode(point.collective, shape, devices_per_node) >= point.participant_count;
    const double rate = BusFactor(point.collective, point.participant_count) *
                        point.message_size.as_double() / point.duration.value();
    double& known =
        best[{is_within ? LinkReach::kWithinNode : LinkReach::kAcrossNodes, point.collective}];
    known = std::max(known, rate);
  }
  std::vector<MeasuredBandwidth> bandwidths;
  for (const auto& [key, rate] : best) {
    bandwidths.push_back({key.first, key.second, BusBandwidth::BytesPerSecond(rate)});
  }
  return bandwidths;
}

}  // namespace parplan
