#include "planner/calibrate/fit_coefficients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/normal_score.h"
#include "planner/calibrate/fit_parameters.h"

namespace parplan {
namespace {

using enum Coefficient;

FitParameter Efficiency() { return {kMatrixEfficiency, {}, 0.75, 0.3, 0.95, 0.1}; }
FitParameter Overhead() { return {kLaunchInterval, {}, 8e-6, 1e-6, 6e-5, 0.5}; }

// The i-th value of a sequence that fills (0, 1) evenly.
double Spread(int i, double irrational) {
  const double value = 0.5 + i * irrational;
  return value - std::floor(value);
}

// A run takes flops / efficiency + launches * interval.
struct Job {
  double flops;
  double launches;
  double measured;
};

double Time(const Job& run, double efficiency, double interval) {
  return run.flops / efficiency + run.launches * interval;
}

std::vector<Job> RunsOf(int count, double efficiency, double interval, double noise) {
  std::vector<Job> runs;
  for (int i = 0; i < count; ++i) {
    Job run{std::pow(10.0, -3.0 + 3.0 * Spread(i, M_SQRT2)), 1000.0, 0.0};
    run.measured = Time(run, efficiency, interval) *
                   std::exp(noise * NormalScore(0.001 + 0.998 * Spread(i, std::sqrt(3.0))));
    runs.push_back(run);
  }
  return runs;
}

ResidualFunction ResidualsOf(const std::vector<Job>& runs) {
  return [&runs](absl::Span<const double> values, absl::Span<double> residuals) {
    for (size_t i = 0; i < runs.size(); ++i) {
      residuals[i] = std::log(runs[i].measured / Time(runs[i], values[0], values[1]));
    }
  };
}

Fit Fitted(const std::vector<FitParameter>& parameters, const std::vector<Job>& runs) {
  absl::StatusOr<Fit> fit =
      FitCoefficients(parameters, static_cast<int64_t>(runs.size()), ResidualsOf(runs));
  EXPECT_TRUE(fit.ok()) << fit.status();
  EXPECT_TRUE(fit->converged);
  return *fit;
}

TEST(FitCoefficients, RecoversWhatRunsWereMadeWith) {
  for (double noise : {0.0, 0.03}) {
    const std::vector<Job> runs = RunsOf(200, 0.62, 1.7e-5, noise);
    const Fit fit = Fitted({Efficiency(), Overhead()}, runs);
    EXPECT_NEAR(fit.parameters[0].value, 0.62, 0.01);
    EXPECT_NEAR(fit.parameters[1].value, 1.7e-5, 1e-6);
    EXPECT_LT(fit.parameters[0].width, 0.02);
    EXPECT_EQ(fit.parameters[0].evidence_count, 200);
    for (double residual : fit.residuals) EXPECT_LT(std::abs(residual), 4.0 * noise + 0.005);
  }
}

TEST(FitCoefficients, WithoutRunsStaysAtThePriors) {
  const Fit fit = Fitted({Efficiency(), Overhead()}, {});
  EXPECT_NEAR(fit.parameters[0].value, 0.75, 1e-12);
  EXPECT_NEAR(fit.parameters[1].value, 8e-6, 1e-16);
  EXPECT_NEAR(fit.parameters[0].width, 0.1, 1e-9);
  EXPECT_EQ(fit.parameters[0].evidence_count, 0);
}

TEST(FitCoefficients, EveryRunMovesItFurtherFromThePrior) {
  double before = 0.75;
  for (int count : {1, 2, 5, 20, 100}) {
    const std::vector<Job> runs = RunsOf(count, 0.55, 8e-6, 0.0);
    const double value = Fitted({Efficiency(), Overhead()}, runs).parameters[0].value;
    EXPECT_LT(value, before) << count;
    EXPECT_GT(value, 0.55) << count;
    before = value;
  }
  EXPECT_NEAR(before, 0.55, 0.01);
}

TEST(FitCoefficients, OneRunMovesAValueLessThanItAsksFor) {
  // Width 0.05 of a delta against a deviation of 0.05 of a run: half of the way, and
  // the threshold for outliers makes it less.
  const FitParameter factor{kTimeFactor, {"", "lab", {}}, 1.0, 0.5, 2.0, 0.05};
  const auto at = [&](double log_ratio) {
    const absl::StatusOr<Fit> fit = FitCoefficients(
        {factor}, 1, [&](absl::Span<const double> values, absl::Span<double> residuals) {
          residuals[0] = log_ratio - std::log(values[0]);
        });
    return std::log(fit->parameters[0].value);
  };
  EXPECT_NEAR(at(0.04), 0.02, 1e-3);
  EXPECT_NEAR(at(-0.04), -0.02, 1e-3);
  // 1.5 deviations pull it by 1.5 * 0.05 at most.
  EXPECT_LT(at(0.5), 0.076);
}

TEST(FitCoefficients, StaysWithinBoundsWhateverRunsSay) {
  const std::vector<Job> fast = RunsOf(50, 40.0, 1e-8, 0.0);
  const Fit at_high = Fitted({Efficiency(), Overhead()}, fast);
  EXPECT_LT(at_high.parameters[0].value, 0.95);
  EXPECT_GT(at_high.parameters[0].value, 0.9);
  EXPECT_GT(at_high.parameters[1].value, 1e-6);
  const std::vector<Job> slow = RunsOf(50, 0.001, 1.0, 0.0);
  const Fit at_low = Fitted({Efficiency(), Overhead()}, slow);
  EXPECT_GT(at_low.parameters[0].value, 0.3);
  EXPECT_LT(at_low.parameters[1].value, 6e-5);
}

TEST(FitCoefficients, TheOrderOfRunsDoesNotMatter) {
  std::vector<Job> runs = RunsOf(60, 0.6, 2e-5, 0.05);
  const Fit forwards = Fitted({Efficiency(), Overhead()}, runs);
  std::reverse(runs.begin(), runs.end());
  std::swap(runs[3], runs[40]);
  const Fit backwards = Fitted({Efficiency(), Overhead()}, runs);
  for (int i = 0; i < 2; ++i) {
    EXPECT_NEAR(forwards.parameters[i].value / backwards.parameters[i].value, 1.0, 1e-6);
  }
}

TEST(FitCoefficients, AnOutlierMovesLittle) {
  std::vector<Job> runs = RunsOf(40, 0.6, 2e-5, 0.02);
  const double without = Fitted({Efficiency(), Overhead()}, runs).parameters[0].value;
  runs[7].measured *= 5.0;
  const double with = Fitted({Efficiency(), Overhead()}, runs).parameters[0].value;
  EXPECT_NEAR(with / without, 1.0, 0.01);
}

TEST(FitCoefficients, LeavesOutRunsThatCannotBePredicted) {
  std::vector<Job> runs = RunsOf(40, 0.6, 2e-5, 0.02);
  const Fit without = Fitted({Efficiency(), Overhead()}, runs);
  runs.push_back({1.0, 1.0, std::numeric_limits<double>::quiet_NaN()});
  const Fit with = Fitted({Efficiency(), Overhead()}, runs);
  EXPECT_EQ(with.parameters[0].value, without.parameters[0].value);
  EXPECT_EQ(with.parameters[0].evidence_count, 40);
  EXPECT_TRUE(std::isnan(with.residuals[40]));
}

TEST(FitCoefficients, AChildGoesWithItsParentAndShrinksTowardsIt) {
  // Twenty runs of one family ask for 1.2 times the prior, one of another for as much
  // below it.
  FitParameter global{kTimeFactor, {}, 1.0, 0.5, 2.0, 0.1};
  FitParameter many{kTimeFactor, {"many", "", {}}, 1.0, 0.5, 2.0, 0.1, 0};
  FitParameter one{kTimeFactor, {"one", "", {}}, 1.0, 0.5, 2.0, 0.1, 0};
  FitParameter none{kTimeFactor, {"none", "", {}}, 1.0, 0.5, 2.0, 0.1, 0};
  const absl::StatusOr<Fit> fit =
      FitCoefficients({global, many, one, none}, 21,
                      [](absl::Span<const double> values, absl::Span<double> residuals) {
                        for (int i = 0; i < 20; ++i) residuals[i] = std::log(1.2 / values[1]);
                        residuals[20] = std::log(0.95 / values[2]);
                      });
  ASSERT_TRUE(fit.ok());
  const auto value = [&](int i) { return fit->parameters[i].value; };
  EXPECT_NEAR(value(1), 1.2, 0.01);
  EXPECT_GT(value(0), 1.0);
  EXPECT_LT(value(0), value(1));
  EXPECT_GT(value(2), 0.95);
  EXPECT_LT(value(2), value(0));
  // A family without measurements gets the average of the others.
  EXPECT_NEAR(value(3), value(0), 1e-12);
  EXPECT_EQ(fit->parameters[3].evidence_count, 0);
  EXPECT_EQ(fit->parameters[1].evidence_count, 20);
  EXPECT_EQ(fit->parameters[2].evidence_count, 1);
  EXPECT_EQ(fit->parameters[0].evidence_count, 21);
}

TEST(FitCoefficients, RefusesParametersByName) {
  const auto field = [](const FitParameter& second) {
    const ResidualFunction none = [](absl::Span<const double>, absl::Span<double>) {};
    const absl::StatusOr<Fit> fit = FitCoefficients({Efficiency(), second}, 0, none);
    return fit.ok() ? "" : GetErrorDetail(fit.status())->metadata.at("field");
  };
  FitParameter parameter = Efficiency();
  parameter.parent = 0;
  EXPECT_EQ(field(parameter), "");
  parameter.parent = 1;
  EXPECT_EQ(field(parameter), "parameters[1].parent");
  parameter = Overhead();
  parameter.parent = 0;
  EXPECT_EQ(field(parameter), "parameters[1].parent");
  parameter = Efficiency();
  parameter.prior = 0.2;
  EXPECT_EQ(field(parameter), "parameters[1].prior");
  parameter = Efficiency();
  parameter.prior_width = 0.0;
  EXPECT_EQ(field(parameter), "parameters[1].prior_width");
  parameter = Efficiency();
  parameter.lowest = 0.96;
  EXPECT_EQ(field(parameter), "parameters[1].lowest");
}

TEST(FitParameters, PublishedRunsMoveFamiliesAndClustersOnlyThemselves) {
  const Calibration& base = *Calibration::BuiltIn();
  const auto scopes = [&](const std::vector<FitPlace>& places, const std::vector<LayerKind>& kinds,
                          Coefficient coefficient) {
    std::vector<CalibrationScope> found;
    for (const FitParameter& parameter :
         ParametersOf(ResidualQuantity::kStepDuration, base, places, kinds)) {
      if (parameter.coefficient == coefficient) found.push_back(parameter.scope);
    }
    return found;
  };
  using Scopes = std::vector<CalibrationScope>;
  EXPECT_EQ(scopes({{"ampere", ""}, {"ampere", ""}}, {}, kReductionRamp),
            (Scopes{{}, {"ampere", "", {}}}));
  // This family has a prior of its own.
  EXPECT_EQ(scopes({{"ampere", ""}}, {}, kMatrixEfficiency), (Scopes{{"ampere", "", {}}}));
  EXPECT_EQ(scopes({{"unknown", ""}, {"ampere", ""}}, {}, kMatrixEfficiency),
            (Scopes{{"ampere", "", {}}, {}, {"unknown", "", {}}}));
  EXPECT_EQ(scopes({{"ampere", "lab", false}}, {}, kMatrixEfficiency),
            (Scopes{{"ampere", "lab", {}}}));
  EXPECT_EQ(scopes({{"ampere", "lab"}}, {}, kMatrixEfficiency),
            (Scopes{{"ampere", "", {}}, {"ampere", "lab", {}}}));
  EXPECT_EQ(scopes({{"ampere", ""}}, {LayerKind::kHead}, kTimeFactor), Scopes{});
  EXPECT_EQ(scopes({{"ampere", "lab"}}, {LayerKind::kHead}, kTimeFactor), Scopes{});
  EXPECT_EQ(scopes({{"ampere", "lab", false}}, {LayerKind::kHead}, kTimeFactor),
            (Scopes{{"ampere", "lab", {}}, {"ampere", "lab", LayerKind::kHead}}));
  EXPECT_EQ(scopes({{"ampere", ""}}, {}, kFragmentation), Scopes{});
  // The machines of one publisher share a factor and nothing else.
  const FitPlace several = {"ampere", "publisher", true, true};
  EXPECT_EQ(scopes({several}, {LayerKind::kHead}, kTimeFactor),
            (Scopes{{"ampere", "publisher", {}}}));
  EXPECT_EQ(scopes({several}, {LayerKind::kHead}, kActivationFactor), Scopes{});
  EXPECT_EQ(scopes({several}, {}, kReductionRamp), (Scopes{{}, {"ampere", "", {}}}));
}

TEST(FitParameters, WhatAnEarlierFitLearnedEverywhereStays) {
  Calibration::Content content;
  content.provenance.agent = "test";
  content.coefficient_values = {{kReductionRamp, {}, 50.0, 4, true},
                                {kContention, {}, 1.3, 0, false}};
  const Calibration base = *Calibration::Create(content);
  std::vector<CalibrationScope> ramp;
  std::vector<CalibrationScope> contention;
  for (const FitParameter& parameter :
       ParametersOf(ResidualQuantity::kStepDuration, base, {{"hopper", "lab"}})) {
    if (parameter.coefficient == kReductionRamp) ramp.push_back(parameter.scope);
    if (parameter.coefficient == kContention) contention.push_back(parameter.scope);
  }
  using Scopes = std::vector<CalibrationScope>;
  EXPECT_EQ(ramp, (Scopes{{"hopper", "", {}}, {"hopper", "lab", {}}}));
  // A value that a person has set is the place to begin, and moves.
  EXPECT_EQ(contention, (Scopes{{}, {"hopper", "lab", {}}}));
}

TEST(FitCoefficients, AWidthIsOfTheLogarithmAlsoNearABound) {
  // One run that wants half the value, as heavy as the prior of 5 %: the value goes half of the way
  // in its logarithm, from any prior, and not further because the other bound is near.
  for (const double prior : {0.5, 0.8, 0.87, 0.93, 0.94, 0.95}) {
    const std::vector<FitParameter> parameters = {{kMemoryEfficiency, {}, prior, 0.1, 0.95, 0.05}};
    const ResidualFunction residuals = [&](absl::Span<const double> values,
                                           absl::Span<double> log_ratios) {
      log_ratios[0] = std::log(values[0] / prior) + 0.06;
    };
    const absl::StatusOr<Fit> fit = FitCoefficients(parameters, 1, residuals, {});
    ASSERT_TRUE(fit.ok()) << fit.status();
    // Within a width of the bound the value moves less.
    const double moved = std::log(fit->parameters[0].value / prior);
    EXPECT_GE(moved, -0.031) << prior;
    EXPECT_LE(moved, prior < 0.9 ? -0.029 : 0.0) << prior;
  }
}

TEST(FitParameters, EveryCoefficientHasItsPlaceInTimeOrMemory) {
  std::vector<int> seen(kCoefficientCount, 0);
  for (auto quantity : {ResidualQuantity::kStepDuration, ResidualQuantity::kPeakMemory}) {
    for (const FitParameter& parameter : ParametersOf(quantity, *Calibration::BuiltIn(),
                                                      {{"ampere", ""}, {"ampere", "lab", false}})) {
      ++seen[static_cast<int>(parameter.coefficient)];
      EXPECT_EQ(parameter.prior,
                Coefficients(parameter.scope.device_family)[parameter.coefficient]);
    }
  }
  for (int i = 0; i < kCoefficientCount; ++i) {
    const auto coefficient = static_cast<Coefficient>(i);
    // Published runs force routers to balance: their steps say nothing about imbalance.
    if (coefficient == kExpertImbalance) {
      EXPECT_EQ(seen[i], 0);
    } else {
      EXPECT_GT(seen[i], 0) << InfoOf(coefficient).name;
    }
  }
}

TEST(FitParameters, FittedValuesReplaceThoseOfTheBaseWhereRunsSpoke) {
  Calibration::Content content;
  content.provenance.agent = "test";
  content.coefficient_values = {{kContention, {}, 1.3, 4, true},
                                {kMatrixEfficiency, {"ampere", "", {}}, 0.7, 5, true}};
  const Calibration base = *Calibration::Create(content);
  const std::vector<FitParameter> parameters = {
      {kMatrixEfficiency, {}, 0.75, 0.3, 0.95, 0.1},
      {kMatrixEfficiency, {"ampere", "", {}}, 0.7, 0.3, 0.95, 0.1, 0},
      {kContention, {}, 1.3, 1.0, 1.6, 0.1}};
  const std::vector<CoefficientValue> values = WithFitted(
      base, parameters, std::vector<FittedParameter>{{0.8, 0.1, 9}, {0.6, 0.1, 8}, {1.4, 0.1, 0}});
  EXPECT_EQ(values,
            (std::vector<CoefficientValue>{{kContention, {}, 1.3, 4, true},
                                           {kMatrixEfficiency, {"ampere", "", {}}, 0.6, 8, true},
                                           {kMatrixEfficiency, {}, 0.8, 9, true}}));
  // Seven rows say nothing of every family.
  EXPECT_EQ(WithFitted(base, {parameters[0]}, std::vector<FittedParameter>{{0.8, 0.1, 7}}),
            content.coefficient_values);
}

}  // namespace
}  // namespace parplan
