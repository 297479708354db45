#include "planner/model/cluster_range.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/normal_score.h"

namespace parplan {
namespace {

// The width of the prior of a cluster's factor (docs/calibration.md), and the number of clusters
// that it counts as.
constexpr double kPriorDeviation = 0.10;
constexpr double kPriorClusterCount = 2.0;
constexpr double kCoverage = 0.9;

// Returns whether the calibration has a value for times of a family's devices on the cluster.
bool Knows(const Calibration& calibration, absl::string_view cluster,
           absl::string_view device_family) {
  const std::vector<CoefficientValue>& values = calibration.content().coefficient_values;
  return std::any_of(values.begin(), values.end(), [&](const CoefficientValue& value) {
    const bool is_of_family =
        value.scope.device_family.empty() || value.scope.device_family == device_family;
    return !value.scope.cluster.empty() && value.scope.cluster == cluster && is_of_family &&
           value.coefficient != Coefficient::kActivationFactor;
  });
}

}  // namespace

double ClusterDeviation(const Calibration& calibration) {
  double squares = kPriorClusterCount * kPriorDeviation * kPriorDeviation;
  double count = kPriorClusterCount;
  for (const CoefficientValue& value : calibration.content().coefficient_values) {
    if (value.coefficient != Coefficient::kTimeFactor || value.scope.cluster.empty() ||
        value.scope.layer_kind.has_value()) {
      continue;
    }
    const double log_factor = std::log(value.value);
    squares += log_factor * log_factor;
    count += 1.0;
  }
  return std::sqrt(squares / count);
}

RangeFactors StepRangeOn(const Calibration& calibration, absl::string_view cluster,
                         const ResidualKey& key) {
  PARPLAN_CHECK(key.quantity == ResidualQuantity::kStepDuration);
  RangeFactors range = calibration.Range(key, kCoverage);
  if (range.residual_count == 0 || key.confidence == Confidence::kMeasured ||
      Knows(calibration, cluster, key.device_family)) {
    return range;
  }
  const double between = NormalScore(0.5 * (1.0 + kCoverage)) * ClusterDeviation(calibration);
  range.lower = range.median * std::exp(-std::hypot(std::log(range.median / range.lower), between));
  range.upper = range.median * std::exp(std::hypot(std::log(range.upper / range.median), between));
  absl::StrAppend(&range.basis, ", and how much clusters differ");
  return range;
}

}  // namespace parplan
