#include "executor/layer_probe/time_spread.h"

#include <algorithm>
#include <cmath>

namespace parplan {
namespace {

std::vector<absl::Duration> Sorted(absl::Span<const absl::Duration> samples) {
  std::vector<absl::Duration> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

}  // namespace

TimeSpread SpreadOf(absl::Span<const absl::Duration> samples) {
  if (samples.empty()) return {};
  const std::vector<absl::Duration> sorted = Sorted(samples);
  const auto count = static_cast<double>(sorted.size());
  const auto at = [&](double share) {
    const auto rank = static_cast<int64_t>(std::ceil(share * count));
    return sorted[std::max<int64_t>(rank - 1, 0)];
  };
  const size_t middle = sorted.size() / 2;
  const absl::Duration median =
      sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  return {.median = median,
          .p10 = std::min(at(0.1), median),
          .p90 = std::max(at(0.9), median),
          .sample_count = static_cast<int>(sorted.size())};
}

absl::Duration MedianUncertainty(absl::Span<const absl::Duration> samples) {
  constexpr size_t kFewest = 6;
  if (samples.size() < kFewest) return absl::InfiniteDuration();
  const std::vector<absl::Duration> sorted = Sorted(samples);
  // The number of samples below the median is binomial, which is nearly normal.
  const auto count = static_cast<double>(sorted.size());
  const double reach = 1.96 * 0.5 * std::sqrt(count);
  const auto low = static_cast<int64_t>(std::max(0.0, std::floor(count / 2.0 - reach)));
  const auto high = static_cast<int64_t>(std::min(count - 1.0, std::ceil(count / 2.0 + reach)));
  return (sorted[high] - sorted[low]) / 2;
}

}  // namespace parplan
