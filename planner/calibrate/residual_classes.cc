#include "planner/calibrate/residual_classes.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/normal_score.h"
#include "planner/calibrate/student_t.h"

namespace parplan {
namespace {

double MedianOf(const std::vector<double>& sorted) {
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : 0.5 * (sorted[half - 1] + sorted[half]);
}

// Returns the quantile `probability` < 1/2 of the next value; `sorted` ascends.
double LowerQuantile(const std::vector<double>& sorted, double probability) {
  const double count = static_cast<double>(sorted.size());
  // Rounding must not turn rank 1 into 0.
  const auto rank = static_cast<size_t>(std::floor(probability * (count + 1.0) + 1e-9));
  if (rank >= 1) return sorted[rank - 1];
  double mean = 0.0;
  for (double value : sorted) mean += value / count;
  double squares = 0.0;
  for (double value : sorted) squares += (value - mean) * (value - mean);
  const int freedom = std::max<int>(1, static_cast<int>(sorted.size()) - 1);
  const double deviation = std::sqrt(squares / freedom);
  const double bound =
      mean + StudentTQuantile(probability, freedom) * deviation * std::sqrt(1.0 + 1.0 / count);
  return std::min(sorted.front(), bound);
}

// Returns whether the runs of a class differ in every member it leaves open. Otherwise they are no
// evidence for runs with other values of that member.
bool IsVaried(const ResidualKey& key, const std::set<ResidualKey>& members) {
  std::set<std::optional<Confidence>> confidences;
  std::set<std::string> families;
  std::set<std::optional<TensorParallelReach>> reaches;
  for (const ResidualKey& member : members) {
    confidences.insert(member.confidence);
    families.insert(member.device_family);
    reaches.insert(member.tensor_parallel_reach);
  }
  const auto open = [](bool is_open, size_t kinds) { return is_open && kinds < 2; };
  return !open(!key.confidence.has_value(), confidences.size()) &&
         !open(key.device_family.empty(), families.size()) &&
         // Memory does not depend on where groups are.
         !open(!key.tensor_parallel_reach.has_value() &&
                   key.quantity == ResidualQuantity::kStepDuration,
               reaches.size());
}

}  // namespace

std::array<double, 9> ResidualQuantiles(std::vector<double> log_ratios,
                                        const ResidualOptions& options) {
  PARPLAN_CHECK(!log_ratios.empty());
  std::sort(log_ratios.begin(), log_ratios.end());
  std::vector<double> mirrored(log_ratios.rbegin(), log_ratios.rend());
  for (double& value : mirrored) value = -value;

  const double count = static_cast<double>(log_ratios.size());
  const double freedom = std::max(1.0, count - options.fitted_parameter_count);
  const double optimism = std::sqrt(count / freedom);
  const double median = MedianOf(log_ratios);
  std::array<double, 9> quantiles;
  for (size_t i = 0; i < quantiles.size(); ++i) {
    double distance = 0.0;
    if (i < kResidualMedian) {
      distance = LowerQuantile(log_ratios, kResidualProbabilities[i]) - median;
    } else if (i > kResidualMedian) {
      distance = -LowerQuantile(mirrored, kResidualProbabilities[8 - i]) - median;
    }
    const double of_laboratories =
        options.laboratory_deviation * NormalScore(kResidualProbabilities[i]);
    distance = std::copysign(std::hypot(distance * optimism, of_laboratories),
                             static_cast<double>(i) - static_cast<double>(kResidualMedian));
    quantiles[i] = std::clamp(median + distance, -kMaxLogRatio, kMaxLogRatio);
  }
  quantiles[kResidualMedian] = std::clamp(median, -kMaxLogRatio, kMaxLogRatio);
  // The normal distribution's bound may lie inside an inner order statistic.
  for (size_t i = kResidualMedian; i-- > 0;)
    quantiles[i] = std::min(quantiles[i], quantiles[i + 1]);
  for (size_t i = kResidualMedian + 1; i < 9; ++i) {
    quantiles[i] = std::max(quantiles[i], quantiles[i - 1]);
  }
  return quantiles;
}

std::vector<ResidualClass> MakeResidualClasses(absl::Span<const Residual> residuals,
                                               const ResidualOptions& options) {
  std::map<ResidualKey, std::vector<double>> log_ratios;
  // The narrowest keys of each class.
  std::map<ResidualKey, std::set<ResidualKey>> members;
  for (const Residual& residual : residuals) {
    if (!std::isfinite(residual.log_ratio)) continue;
    const std::array<ResidualKey, 5> keys = WiderKeys(residual.key);
    for (const ResidualKey& key : std::set<ResidualKey>(keys.begin(), keys.end())) {
      log_ratios[key].push_back(residual.log_ratio);
      members[key].insert(residual.key);
    }
  }
  std::vector<ResidualClass> classes;
  for (auto& [key, values] : log_ratios) {
    const auto count = static_cast<int64_t>(values.size());
    if (count < options.fewest_runs || !IsVaried(key, members[key])) continue;
    classes.push_back({key, count, ResidualQuantiles(std::move(values), options)});
  }
  return classes;
}

}  // namespace parplan
