#include "planner/calibrate/residual_classes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/normal_score.h"
#include "planner/calibrate/student_t.h"

namespace parplan {
namespace {

constexpr auto kStep = ResidualQuantity::kStepDuration;
constexpr auto kWithin = TensorParallelReach::kWithinNode;
constexpr auto kAcross = TensorParallelReach::kAcrossNodes;

double NormalShareBelow(double value) { return 0.5 * std::erfc(-value * M_SQRT1_2); }

// Point number `point` of a sequence that fills the unit cube of `size` dimensions
// evenly (Kronecker, with the roots of primes), as a sample of a normal distribution.
std::vector<double> NormalSample(int point, int size) {
  std::vector<double> sample;
  for (int prime = 2; static_cast<int>(sample.size()) < size; ++prime) {
    bool is_prime = true;
    for (int i = 2; i * i <= prime; ++i) is_prime = is_prime && prime % i != 0;
    if (!is_prime) continue;
    const double place = (point + 1) * std::sqrt(static_cast<double>(prime));
    sample.push_back(NormalScore(std::clamp(place - std::floor(place), 1e-9, 1.0 - 1e-9)));
  }
  return sample;
}

TEST(StudentT, AgreesWithTables) {
  EXPECT_NEAR(StudentTQuantile(0.95, 1), 6.3137515, 1e-6);
  EXPECT_NEAR(StudentTQuantile(0.995, 2), 9.9248432, 1e-6);
  EXPECT_NEAR(StudentTQuantile(0.05, 5), -2.0150484, 1e-6);
  EXPECT_NEAR(StudentTQuantile(0.99, 10), 2.7637695, 1e-6);
  EXPECT_NEAR(StudentTQuantile(0.975, 30), 2.0422725, 1e-6);
  EXPECT_NEAR(StudentTQuantile(0.5, 7), 0.0, 1e-9);
  EXPECT_NEAR(StudentTQuantile(0.99, 100000), NormalScore(0.99), 1e-4);
}

TEST(ResidualQuantiles, AreOrderStatisticsOfTheNextRun) {
  // 199 runs at 0.01, 0.02, ..., 1.99: rank 10 of 200 is the 5 % quantile.
  std::vector<double> log_ratios;
  for (int i = 199; i >= 1; --i) log_ratios.push_back(0.01 * i);
  const std::array<double, 9> quantiles =
      ResidualQuantiles(log_ratios, {.laboratory_deviation = 0.0});
  EXPECT_NEAR(quantiles[0], 0.01, 1e-12);
  EXPECT_NEAR(quantiles[1], 0.02, 1e-12);
  EXPECT_NEAR(quantiles[2], 0.10, 1e-12);
  EXPECT_NEAR(quantiles[3], 0.50, 1e-12);
  EXPECT_NEAR(quantiles[4], 1.00, 1e-12);
  EXPECT_NEAR(quantiles[6], 1.90, 1e-12);
  EXPECT_NEAR(quantiles[8], 1.99, 1e-12);
}

TEST(ResidualQuantiles, OfEqualRunsIsWhatLaboratoriesDifferBy) {
  const std::array<double, 9> quantiles = ResidualQuantiles(std::vector<double>(50, 0.2));
  for (size_t i = 0; i < quantiles.size(); ++i) {
    EXPECT_NEAR(quantiles[i], 0.2 + 0.03 * NormalScore(kResidualProbabilities[i]), 1e-12);
  }
}

// The promise: whatever the number of runs, new ones lie within at least as often as
// said, on average over what the known runs happened to be.
TEST(ResidualQuantiles, HoldNewRunsAsOftenAsTheySay) {
  constexpr int kSampleCount = 2000;
  for (int size : {8, 12, 20, 40, 100}) {
    std::array<double, 9> share_below = {};
    for (int point = 0; point < kSampleCount; ++point) {
      const std::array<double, 9> quantiles =
          ResidualQuantiles(NormalSample(point, size), {.laboratory_deviation = 0.0});
      for (size_t i = 0; i < 9; ++i) {
        share_below[i] += NormalShareBelow(quantiles[i]) / kSampleCount;
      }
    }
    // The sequence is even to about a thousandth.
    for (size_t i = 0; i < 4; ++i) {
      const double probability = kResidualProbabilities[i];
      EXPECT_LT(share_below[i], probability * 1.02 + 0.001) << size << " runs";
      EXPECT_GT(share_below[8 - i], 1.0 - probability * 1.02 - 0.001) << size << " runs";
      // And not much oftener: a range that holds everything says nothing.
      EXPECT_GT(share_below[i], 0.5 * probability - 2.0 / size * probability - 0.001) << size;
    }
    EXPECT_NEAR(share_below[4], 0.5, 0.02);
  }
}

TEST(ResidualQuantiles, AreWiderWithFewerRunsAndMoreFittedCoefficients) {
  const auto width = [](int size, double fitted) {
    double sum = 0.0;
    for (int point = 0; point < 200; ++point) {
      const auto quantiles =
          ResidualQuantiles(NormalSample(point, size), {.fitted_parameter_count = fitted});
      sum += quantiles[7] - quantiles[1];
    }
    return sum;
  };
  EXPECT_GT(width(8, 0), width(20, 0));
  EXPECT_GT(width(20, 0), width(60, 0));
  EXPECT_GT(width(20, 5), width(20, 0));
}

TEST(ResidualQuantiles, NeverFallAndStayWithinWhatACalibrationMayHold) {
  for (int size : {1, 2, 3, 8, 30}) {
    for (int point = 0; point < 50; ++point) {
      std::vector<double> sample = NormalSample(point, size);
      for (double& value : sample) value *= 3.0;
      Calibration::Content content;
      content.provenance.agent = "test";
      content.residual_classes = {{{kStep}, size, ResidualQuantiles(sample)}};
      EXPECT_TRUE(Calibration::Create(content).ok());
    }
  }
}

TEST(ResidualClasses, AreMadeForEveryKeyOfWhichRunsDifferInWhatItLeavesOpen) {
  std::vector<Residual> residuals;
  const auto add = [&](int count, std::string family, TensorParallelReach reach) {
    for (int i = 0; i < count; ++i) {
      residuals.push_back({{kStep, Confidence::kEstimated, family, reach}, 0.01 * i});
    }
  };
  add(10, "ampere", kWithin);
  add(5, "ampere", kAcross);
  add(9, "hopper", kWithin);
  residuals.push_back({{kStep, Confidence::kEstimated, "hopper", kWithin}, NAN});
  const std::vector<ResidualClass> classes = MakeResidualClasses(residuals);
  std::vector<std::pair<ResidualKey, int64_t>> found;
  for (const ResidualClass& made : classes) found.push_back({made.key, made.residual_count});
  const auto estimated = Confidence::kEstimated;
  EXPECT_EQ(found, (std::vector<std::pair<ResidualKey, int64_t>>{
                       {{kStep, estimated, "", {}}, 24},
                       {{kStep, estimated, "", kWithin}, 19},
                       {{kStep, estimated, "ampere", {}}, 15},
                       {{kStep, estimated, "ampere", kWithin}, 10},
                       {{kStep, estimated, "hopper", kWithin}, 9},
                   }));
}

}  // namespace
}  // namespace parplan
