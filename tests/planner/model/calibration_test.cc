#include "planner/model/calibration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/normal_score.h"

namespace parplan {
namespace {

using enum Coefficient;

constexpr auto kStepQuantity = ResidualQuantity::kStepDuration;
constexpr auto kMemoryQuantity = ResidualQuantity::kPeakMemory;

Calibration::Content ContentOf(std::vector<CoefficientValue> values,
                               std::vector<ResidualClass> classes = {}) {
  Calibration::Content content;
  content.provenance.agent = "test 1";
  content.coefficient_values = std::move(values);
  content.residual_classes = std::move(classes);
  return content;
}

Calibration Made(Calibration::Content content) {
  absl::StatusOr<Calibration> calibration = Calibration::Create(std::move(content));
  EXPECT_TRUE(calibration.ok()) << calibration.status();
  return *std::move(calibration);
}

// Quantiles of a normal distribution around `center`.
ResidualClass Normal(ResidualKey key, int64_t count, double center, double deviation) {
  ResidualClass residuals{std::move(key), count, {}};
  for (size_t i = 0; i < residuals.log_ratio.size(); ++i) {
    residuals.log_ratio[i] = center + deviation * NormalScore(kResidualProbabilities[i]);
  }
  return residuals;
}

TEST(Calibration, WithoutValuesResolvesToThePriors) {
  EXPECT_EQ(Calibration::BuiltIn()->Resolve("", ""), Coefficients());
  EXPECT_EQ(Made(ContentOf({})).Resolve("", "lab", LayerKind::kHead), Coefficients());
}

TEST(Calibration, PriorsOfAFamilyAreNarrowerThanAValueForAllAndWiderThanOneOfItsOwn) {
  const double prior = Coefficients("ampere")[kMatrixEfficiency];
  ASSERT_NE(prior, Coefficients()[kMatrixEfficiency]);
  EXPECT_EQ(Calibration::BuiltIn()->Resolve("ampere", ""), Coefficients("ampere"));
  Calibration::Content content = ContentOf({{kMatrixEfficiency, {}, 0.5}});
  EXPECT_EQ(Made(content).Resolve("ampere", "")[kMatrixEfficiency], prior);
  EXPECT_EQ(Made(content).Resolve("unknown", "")[kMatrixEfficiency], 0.5);
  content.coefficient_values.push_back({kMatrixEfficiency, {"ampere", "", {}}, 0.6});
  EXPECT_EQ(Made(content).Resolve("ampere", "")[kMatrixEfficiency], 0.6);
}

TEST(Calibration, OfSeveralScopesTheNarrowestCountsInAnyOrder) {
  std::vector<CoefficientValue> values = {
      {kContention, {}, 1.1},
      {kContention, {"ampere", "", {}}, 1.2},
      {kContention, {"", "lab", {}}, 1.3},
      {kContention, {"ampere", "lab", {}}, 1.4},
      {kTimeFactor, {"ampere", "lab", {}}, 1.1},
      {kTimeFactor, {"", "", LayerKind::kHead}, 0.9},
  };
  const auto check = [](const Calibration& calibration) {
    EXPECT_EQ(calibration.Resolve("", "")[kContention], 1.1);
    EXPECT_EQ(calibration.Resolve("hopper", "other")[kContention], 1.1);
    EXPECT_EQ(calibration.Resolve("ampere", "other")[kContention], 1.2);
    EXPECT_EQ(calibration.Resolve("hopper", "lab")[kContention], 1.3);
    EXPECT_EQ(calibration.Resolve("ampere", "lab")[kContention], 1.4);
    EXPECT_EQ(calibration.Resolve("ampere", "lab")[kTimeFactor], 1.1);
    EXPECT_EQ(calibration.Resolve("ampere", "lab", LayerKind::kHead)[kTimeFactor], 0.9);
    EXPECT_EQ(calibration.Resolve("ampere", "lab", LayerKind::kDecoder)[kTimeFactor], 1.1);
    EXPECT_EQ(calibration.Resolve("hopper", "", LayerKind::kDecoder)[kTimeFactor], 1.0);
  };
  check(Made(ContentOf(values)));
  check(Made(ContentOf({values.rbegin(), values.rend()})));
}

TEST(Calibration, RefusesWhatBreaksARuleByName) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    std::function<void(Calibration::Content&)> change;
    std::string field;
  };
  const std::vector<Case> cases = {
      {[](auto& c) { c.provenance.agent = ""; }, "provenance.agent"},
      {[](auto& c) {
         c.provenance.sources = {{"a", 1, ""}, {"b", 0, ""}};
       },
       "provenance.sources[1].row_count"},
      {[](auto& c) { c.coefficient_values[1].value = 0.96; }, "coefficient_values[1].value"},
      {[](auto& c) { c.coefficient_values[1].value = 0.29; }, "coefficient_values[1].value"},
      {[=](auto& c) { c.coefficient_values[0].value = nan; }, "coefficient_values[0].value"},
      {[](auto& c) { c.coefficient_values[0].scope.layer_kind = LayerKind::kHead; },
       "coefficient_values[0].scope.layer_kind"},
      {[](auto& c) { c.coefficient_values[0].evidence_count = -1; },
       "coefficient_values[0].evidence_count"},
      {[](auto& c) { c.coefficient_values[1] = c.coefficient_values[0]; }, "coefficient_values[1]"},
      {[](auto& c) { c.residual_classes[0].log_ratio[3] = 1.0; },
       "residual_classes[0].log_ratio_quantiles"},
      {[](auto& c) { c.residual_classes[0].log_ratio[8] = 5.1; },
       "residual_classes[0].log_ratio_quantiles"},
      {[=](auto& c) { c.residual_classes[0].log_ratio[4] = nan; },
       "residual_classes[0].log_ratio_quantiles"},
      {[](auto& c) { c.residual_classes.push_back(c.residual_classes[0]); }, "residual_classes[1]"},
      {[](auto& c) { c.residual_classes[0].residual_count = -1; },
       "residual_classes[0].residual_count"},
  };
  for (const Case& broken : cases) {
    Calibration::Content content =
        ContentOf({{kContention, {}, 1.2}, {kMatrixEfficiency, {"ampere", "", {}}, 0.85}},
                  {Normal({kStepQuantity}, 40, 0.0, 0.1)});
    ASSERT_TRUE(Calibration::Create(content).ok());
    broken.change(content);
    const absl::StatusOr<Calibration> refused = Calibration::Create(content);
    ASSERT_FALSE(refused.ok()) << broken.field;
    EXPECT_EQ(GetErrorDetail(refused.status())->metadata.at("field"), broken.field);
  }
}

TEST(CalibrationRange, HoldsTheShareOfRunsItSays) {
  const Calibration calibration = Made(ContentOf({}, {Normal({kStepQuantity}, 1000, 0.02, 0.1)}));
  for (double coverage : {0.3, 0.5, 0.9, 0.95, 0.99, 0.999}) {
    const RangeFactors factors =
        calibration.Range({kStepQuantity, Confidence::kMeasured}, coverage);
    const double score = NormalScore(0.5 * (1.0 + coverage));
    EXPECT_NEAR(std::log(factors.lower), 0.02 - 0.1 * score, 1e-9) << coverage;
    EXPECT_NEAR(std::log(factors.upper), 0.02 + 0.1 * score, 1e-9) << coverage;
    EXPECT_NEAR(factors.median, std::exp(0.02), 1e-12);
    EXPECT_EQ(factors.residual_count, 1000);
    EXPECT_EQ(factors.basis, "any prediction: 1000 runs");
  }
}

TEST(CalibrationRange, IsOfTheNarrowestClassThatKnowsEnough) {
  const auto within = TensorParallelReach::kWithinNode;
  const Calibration calibration = Made(ContentOf(
      {}, {
              Normal({kStepQuantity}, 500, 0.0, 0.2),
              Normal({kStepQuantity, Confidence::kEstimated}, 200, 0.0, 0.15),
              Normal({kStepQuantity, Confidence::kEstimated, "ampere"}, 100, 0.0, 0.10),
              Normal({kStepQuantity, Confidence::kEstimated, "", within}, 90, 0.0, 0.12),
              Normal({kStepQuantity, Confidence::kEstimated, "ampere", within}, 30, 0.0, 0.05),
          }));
  const auto count = [&](const ResidualKey& key) { return calibration.Range(key).residual_count; };
  EXPECT_EQ(count({kStepQuantity, Confidence::kEstimated, "ampere", within}), 30);
  EXPECT_EQ(count({kStepQuantity, Confidence::kEstimated, "hopper", within}), 90);
  EXPECT_EQ(
      count({kStepQuantity, Confidence::kEstimated, "ampere", TensorParallelReach::kAcrossNodes}),
      100);
  EXPECT_EQ(
      count({kStepQuantity, Confidence::kEstimated, "hopper", TensorParallelReach::kAcrossNodes}),
      200);
  EXPECT_EQ(count({kStepQuantity, Confidence::kMeasured, "ampere", within}), 500);
  // It has no values for memory.
  EXPECT_EQ(calibration.Range({kMemoryQuantity, Confidence::kMeasured}).basis, "measured: prior");
}

TEST(CalibrationRange, WithFewRunsIsNeverNarrowerThanTheWiderClass) {
  const Calibration calibration =
      Made(ContentOf({}, {Normal({kStepQuantity}, 500, 0.0, 0.1),
                          Normal({kStepQuantity, Confidence::kMeasured}, 29, 0.05, 0.01),
                          Normal({kStepQuantity, Confidence::kMixed}, 30, 0.05, 0.01),
                          Normal({kStepQuantity, Confidence::kEstimated}, 3, -0.3, 0.02)}));
  const RangeFactors everything = calibration.Range({kStepQuantity});
  const RangeFactors few = calibration.Range({kStepQuantity, Confidence::kMeasured});
  EXPECT_EQ(few.lower, everything.lower);
  EXPECT_EQ(few.upper, everything.upper);
  EXPECT_EQ(few.residual_count, 29);
  const RangeFactors enough = calibration.Range({kStepQuantity, Confidence::kMixed});
  EXPECT_GT(enough.lower, everything.lower);
  EXPECT_LT(enough.upper, everything.upper);
  // One that lies elsewhere makes the range wider, not another.
  const RangeFactors elsewhere = calibration.Range({kStepQuantity, Confidence::kEstimated});
  EXPECT_LT(elsewhere.lower, everything.lower);
  EXPECT_EQ(elsewhere.upper, everything.upper);
}

TEST(CalibrationRange, UpperMemoryGrowsAsTheRiskShrinksAndIsNeverBelowThePrediction) {
  const Calibration calibration =
      Made(ContentOf({}, {Normal({kMemoryQuantity}, 400, -0.05, 0.04)}));
  double before = 0.0;
  for (double risk : {0.5, 0.2, 0.1, 0.05, 0.01, 0.001, 1e-6}) {
    const double factor = calibration.UpperFactor({kMemoryQuantity}, risk);
    EXPECT_GE(factor, 1.0);
    EXPECT_GE(factor, before);
    before = factor;
  }
  EXPECT_EQ(calibration.UpperFactor({kMemoryQuantity}, 0.5), 1.0);
  EXPECT_NEAR(calibration.UpperFactor({kMemoryQuantity}, 0.01),
              std::exp(-0.05 - 0.04 * NormalScore(0.01)), 1e-9);
  EXPECT_LT(calibration.Range({kMemoryQuantity}).lower, 1.0);
}

TEST(CalibrationRange, OfStepsBracketsThePrediction) {
  const RangeFactors range = Calibration::BuiltIn()->Range(
      {kStepQuantity, Confidence::kEstimated, "ampere", TensorParallelReach::kAcrossNodes});
  EXPECT_LT(range.lower, 1.0);
  EXPECT_GT(range.upper, 1.0);
}

TEST(BuiltInCalibration, PromisesMoreWhereMoreWasMeasured) {
  const Calibration& priors = *Calibration::BuiltIn();
  for (ResidualQuantity quantity : {kStepQuantity, kMemoryQuantity}) {
    const auto width = [&](Confidence confidence, TensorParallelReach reach) {
      const RangeFactors factors = priors.Range({quantity, confidence, "volta", reach});
      return factors.upper / factors.lower;
    };
    for (auto reach : {TensorParallelReach::kWithinNode, TensorParallelReach::kAcrossNodes}) {
      EXPECT_LT(width(Confidence::kMeasured, reach), width(Confidence::kMixed, reach));
      EXPECT_LT(width(Confidence::kMixed, reach), width(Confidence::kEstimated, reach));
    }
  }
}

}  // namespace
}  // namespace parplan
