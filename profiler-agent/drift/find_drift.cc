#include "profiler-agent/drift/find_drift.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "proto/wire/duration_wire.h"

namespace parplan {
namespace {

// (collective, participant count, rank stride).
using Shape = std::tuple<int, int, int>;

Shape ShapeOf(const v1::CollectiveTiming& timing) {
  return {timing.collective(), timing.participant_count(), timing.rank_stride()};
}

double SecondsOf(const google::protobuf::Duration& duration) {
  const auto seconds = SecondsFromProto(duration, "");
  return seconds.ok() ? seconds->value() : 0.0;
}

struct StoredTime {
  double median = 0.0;
  // Ratio of the 90th percentile to the median, at least 1.
  double spread = 1.0;
};

// Stored times of one shape by message size in bytes.
using Curve = std::map<int64_t, StoredTime>;

// Returns the stored time at a size, interpolated if need be; absent far beyond the measured sizes.
std::optional<StoredTime> At(const Curve& curve, int64_t bytes) {
  // Sizes are measured in steps of 2 or 4, so a size further out than this was never near one.
  constexpr int64_t kBeyond = 2;
  const auto above = curve.lower_bound(bytes);
  if (above == curve.end()) {
    const auto& [last, time] = *curve.rbegin();
    if (bytes > last * kBeyond) return std::nullopt;
    // Above the largest measured size the time grows in proportion to the size: bandwidth rules.
    return StoredTime{time.median * static_cast<double>(bytes) / static_cast<double>(last),
                      time.spread};
  }
  if (above->first == bytes) return above->second;
  if (above == curve.begin()) {
    if (bytes * kBeyond < above->first) return std::nullopt;
    return above->second;
  }
  const auto& [low, below_time] = *std::prev(above);
  const auto& [high, above_time] = *above;
  const double weight = std::log(static_cast<double>(bytes) / static_cast<double>(low)) /
                        std::log(static_cast<double>(high) / static_cast<double>(low));
  return StoredTime{
      std::exp((1 - weight) * std::log(below_time.median) + weight * std::log(above_time.median)),
      std::max(below_time.spread, above_time.spread)};
}

// The times seen, each weighted by its number of operations.
class WeightedTimes {
 public:
  void Add(double seconds, int64_t count) {
    times_.emplace_back(seconds, count);
    count_ += count;
  }
  int64_t count() const { return count_; }
  // Returns the smallest time that at least this share of operations did not exceed.
  double Percentile(double share) {
    std::sort(times_.begin(), times_.end());
    int64_t seen = 0;
    for (const auto& [seconds, count] : times_) {
      seen += count;
      if (static_cast<double>(seen) >= share * static_cast<double>(count_)) return seconds;
    }
    return times_.back().first;
  }

 private:
  std::vector<std::pair<double, int64_t>> times_;
  int64_t count_ = 0;
};

// The times seen for one shape at one size, and the time stored for it.
struct Comparison {
  Shape shape;
  StoredTime stored;
  WeightedTimes seen;
};

std::vector<Comparison> Compare(const v1::Profile& stored,
                                absl::Span<const v1::CollectiveTiming> passive) {
  std::map<Shape, Curve> curves;
  for (const v1::CollectiveTiming& timing : stored.collective_timings()) {
    const double median = SecondsOf(timing.median_duration());
    if (median <= 0 || timing.message_size_bytes() <= 0) continue;
    const double p90 = timing.has_p90_duration() ? SecondsOf(timing.p90_duration()) : median;
    curves[ShapeOf(timing)][timing.message_size_bytes()] = {median, std::max(1.0, p90 / median)};
  }
  std::map<std::pair<Shape, int64_t>, WeightedTimes> seen;
  for (const v1::CollectiveTiming& timing : passive) {
    const double median = SecondsOf(timing.median_duration());
    if (median <= 0 || timing.message_size_bytes() <= 0) continue;
    seen[{ShapeOf(timing), timing.message_size_bytes()}].Add(median,
                                                             std::max(timing.sample_count(), 1));
  }
  std::vector<Comparison> comparisons;
  for (auto& [place, times] : seen) {
    const auto curve = curves.find(place.first);
    if (curve == curves.end()) continue;
    const std::optional<StoredTime> time = At(curve->second, place.second);
    if (time.has_value()) comparisons.push_back({place.first, *time, std::move(times)});
  }
  return comparisons;
}

}  // namespace

std::vector<Drift> FindDrift(const v1::Profile& stored,
                             absl::Span<const v1::CollectiveTiming> passive,
                             const DriftOptions& options) {
  std::map<Shape, double> worst;
  for (Comparison& comparison : Compare(stored, passive)) {
    if (comparison.seen.count() < options.min_sample_count) continue;
    const StoredTime& time = comparison.stored;
    const double width = time.spread * (1.0 + options.tolerance);
    const double slow = comparison.seen.Percentile(0.1) / time.median;
    const double fast = comparison.seen.Percentile(0.5) / time.median;
    const double ratio = slow > width ? slow : fast < 1.0 / width ? fast : 1.0;
    if (ratio == 1.0) continue;
    double& known = worst.try_emplace(comparison.shape, 1.0).first->second;
    if (std::abs(std::log(ratio)) > std::abs(std::log(known))) known = ratio;
  }
  std::vector<Drift> drifts;
  for (const auto& [shape, ratio] : worst) {
    const auto& [collective, participants, stride] = shape;
    drifts.push_back({static_cast<v1::Collective>(collective), participants, stride, ratio});
  }
  return drifts;
}

double LargestDriftRatio(const v1::Profile& stored,
                         absl::Span<const v1::CollectiveTiming> passive) {
  double largest = 1.0;
  for (Comparison& comparison : Compare(stored, passive)) {
    const double ratio = comparison.seen.Percentile(0.5) / comparison.stored.median;
    largest = std::max({largest, ratio, 1.0 / ratio});
  }
  return largest;
}

}  // namespace parplan
