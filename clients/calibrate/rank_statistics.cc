#include "clients/calibrate/rank_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "base/check.h"

namespace parplan::accuracy {

std::vector<double> Ranks(absl::Span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [values](size_t a, size_t b) {
    return values[a] != values[b] ? values[a] < values[b] : a < b;
  });
  std::vector<double> ranks(values.size());
  for (size_t first = 0; first < order.size();) {
    size_t end = first + 1;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    const double rank = (static_cast<double>(first + end) + 1.0) / 2.0;
    for (size_t i = first; i < end; ++i) ranks[order[i]] = rank;
    first = end;
  }
  return ranks;
}

std::optional<double> RankCorrelation(absl::Span<const double> a, absl::Span<const double> b) {
  PARPLAN_CHECK(a.size() == b.size());
  const std::vector<double> ranks_a = Ranks(a);
  const std::vector<double> ranks_b = Ranks(b);
  // The mean of the ranks 1..n is (n + 1) / 2, also with ties.
  const double mean = (static_cast<double>(a.size()) + 1.0) / 2.0;
  double covariance = 0.0;
  double variance_a = 0.0;
  double variance_b = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    covariance += (ranks_a[i] - mean) * (ranks_b[i] - mean);
    variance_a += (ranks_a[i] - mean) * (ranks_a[i] - mean);
    variance_b += (ranks_b[i] - mean) * (ranks_b[i] - mean);
  }
  if (variance_a == 0.0 || variance_b == 0.0) return std::nullopt;
  return covariance / std::sqrt(variance_a * variance_b);
}

double TopOneRegret(absl::Span<const double> predicted, absl::Span<const double> measured) {
  PARPLAN_CHECK(!predicted.empty() && predicted.size() == measured.size());
  const double smallest = *std::min_element(predicted.begin(), predicted.end());
  double sum = 0.0;
  int count = 0;
  for (size_t i = 0; i < predicted.size(); ++i) {
    if (predicted[i] != smallest) continue;
    sum += measured[i];
    ++count;
  }
  return sum / count / *std::min_element(measured.begin(), measured.end()) - 1.0;
}

double Median(std::vector<double> values) {
  PARPLAN_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2.0;
}

}  // namespace parplan::accuracy
