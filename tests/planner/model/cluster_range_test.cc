#include "planner/model/cluster_range.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/normal_score.h"

namespace parplan {
namespace {

const ResidualKey kEstimatedStep{ResidualQuantity::kStepDuration, Confidence::kEstimated};
constexpr double kScore = 1.6448536269514722;

// Runs of one class of estimated steps, whose ln(ratio) has a deviation of 5 % around 2 %.
Calibration WithValues(std::vector<CoefficientValue> values) {
  constexpr int64_t residual_count = 100;
  Calibration::Content content;
  content.provenance.agent = "test 1";
  content.coefficient_values = std::move(values);
  for (const Confidence confidence : {Confidence::kMeasured, Confidence::kEstimated}) {
    ResidualClass residuals{{ResidualQuantity::kStepDuration, confidence}, residual_count, {}};
    for (size_t i = 0; i < residuals.log_ratio.size(); ++i) {
      residuals.log_ratio[i] = 0.02 + 0.05 * NormalScore(kResidualProbabilities[i]);
    }
    content.residual_classes.push_back(std::move(residuals));
  }
  absl::StatusOr<Calibration> calibration = Calibration::Create(std::move(content));
  EXPECT_TRUE(calibration.ok()) << calibration.status();
  return *std::move(calibration);
}

// One cluster a factor, `lab-0` and so on.
Calibration WithFactors(const std::vector<double>& factors) {
  std::vector<CoefficientValue> values;
  for (size_t i = 0; i < factors.size(); ++i) {
    values.push_back({Coefficient::kTimeFactor, {"", "lab-" + std::to_string(i), {}}, factors[i]});
  }
  return WithValues(std::move(values));
}

TEST(ClusterDeviation, IsThePriorWithoutClustersAndMovesTowardsTheirSpread) {
  EXPECT_DOUBLE_EQ(ClusterDeviation(WithFactors({})), 0.1);
  EXPECT_LT(ClusterDeviation(WithFactors({1.0})), 0.1);
  EXPECT_GT(ClusterDeviation(WithFactors({1.3})), 0.1);
  // Two clusters of the prior and two with a factor of e^0.2 and its inverse:
  // sqrt((2 * 0.01 + 2 * 0.04) / 4).
  EXPECT_NEAR(ClusterDeviation(WithFactors({std::exp(0.2), std::exp(-0.2)})), std::sqrt(0.025),
              1e-12);
}

// Variances add up: 5 % of runs on known clusters and 10 % between clusters are 11.2 %.
TEST(StepRangeOn, AddsTheSpreadOfClustersWhereTheClusterIsUnknown) {
  const Calibration calibration = WithFactors({});
  const RangeFactors range = StepRangeOn(calibration, "elsewhere", kEstimatedStep);
  const double deviation = std::sqrt(0.05 * 0.05 + 0.1 * 0.1);
  EXPECT_NEAR(std::log(range.upper), 0.02 + kScore * deviation, 1e-3);
  EXPECT_NEAR(std::log(range.lower), 0.02 - kScore * deviation, 1e-3);
  EXPECT_EQ(range.median, calibration.Range(kEstimatedStep).median);
  EXPECT_NE(range.basis, calibration.Range(kEstimatedStep).basis);
}

TEST(StepRangeOn, IsThatOfTheClassWhereTheClusterIsKnown) {
  const Calibration calibration = WithFactors({1.1});
  const RangeFactors known = StepRangeOn(calibration, "lab-0", kEstimatedStep);
  EXPECT_EQ(known.lower, calibration.Range(kEstimatedStep).lower);
  EXPECT_EQ(known.upper, calibration.Range(kEstimatedStep).upper);
  const RangeFactors unknown = StepRangeOn(calibration, "lab-1", kEstimatedStep);
  EXPECT_LT(unknown.lower, known.lower);
  EXPECT_GT(unknown.upper, known.upper);
}

// Runs on other devices of the cluster, and runs whose memory alone was fitted, say nothing about
// these times.
TEST(StepRangeOn, AClusterIsKnownByTimesOfTheSameDevices) {
  ResidualKey hopper = kEstimatedStep;
  hopper.device_family = "hopper";
  const auto upper = [&](Coefficient coefficient, const std::string& family) {
    return StepRangeOn(WithValues({{coefficient, {family, "lab", {}}, 1.0}}), "lab", hopper).upper;
  };
  const double known = upper(Coefficient::kTimeFactor, "hopper");
  EXPECT_EQ(known, upper(Coefficient::kTimeFactor, ""));
  EXPECT_GT(upper(Coefficient::kTimeFactor, "blackwell"), known);
  EXPECT_GT(upper(Coefficient::kActivationFactor, "hopper"), known);
}

TEST(StepRangeOn, DoesNotWidenMeasuredTimesAndPriors) {
  const ResidualKey measured{ResidualQuantity::kStepDuration, Confidence::kMeasured};
  const Calibration calibration = WithFactors({1.3});
  EXPECT_EQ(StepRangeOn(calibration, "elsewhere", measured).upper,
            calibration.Range(measured).upper);
  const Calibration& priors = *Calibration::BuiltIn();
  EXPECT_EQ(StepRangeOn(priors, "elsewhere", kEstimatedStep).upper,
            priors.Range(kEstimatedStep).upper);
}

// The more clusters differ, the less is known about another one.
TEST(StepRangeOn, IsNeverNarrowerIfClustersDifferMore) {
  double before = 0.0;
  for (const double factor : {1.0, 1.1, 1.2, 1.3, 1.5}) {
    const RangeFactors range =
        StepRangeOn(WithFactors({factor, 1.0 / factor}), "elsewhere", kEstimatedStep);
    EXPECT_GT(range.upper, before);
    before = range.upper;
  }
}

}  // namespace
}  // namespace parplan
