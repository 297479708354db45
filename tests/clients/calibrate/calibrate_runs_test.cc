#include "clients/calibrate/calibrate_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "clients/calibrate/execution_runs.h"
#include "clients/calibrate/run_slice.h"
#include "proto/wire/calibration_wire.h"
#include "proto/wire/digest.h"

namespace parplan::planctl {
namespace {

using enum Coefficient;

// A cost model of one line: work over efficiency, and launches.
RunPrediction Predict(double work, double launches, const Coefficients& coefficients) {
  RunPrediction prediction;
  prediction.step = Seconds::Of(work / coefficients[kMatrixEfficiency] +
                                launches * coefficients[kLaunchInterval]);
  prediction.memory = Bytes::Ceil(work * 1e10 * (1.0 + coefficients[kFragmentation]) +
                                  coefficients[kContextMemory]);
  prediction.confidence = Confidence::kEstimated;
  prediction.tensor_parallel_reach = TensorParallelReach::kWithinNode;
  return prediction;
}

// Runs of a world where products reach 0.6 of the peak and a context takes 1.5 GB.
std::vector<MeasuredRun> World(int count) {
  Coefficients truth;
  truth[kMatrixEfficiency] = 0.6;
  truth[kContextMemory] = 1.5e9;
  std::vector<MeasuredRun> runs;
  for (int i = 0; i < count; ++i) {
    const double work = 0.1 + std::fmod(0.6180339887 * i, 1.0);
    const double noise = 1.0 + 0.02 * std::sin(7.0 * i);
    const RunPrediction measured = Predict(work, 100.0, truth);
    MeasuredRun run;
    run.id = absl::StrCat("run-", i);
    run.source = "world";
    run.place.device_family = "ampere";
    run.step = *measured.step * noise;
    run.memory = Bytes::Ceil(measured.memory->as_double() * noise);
    run.predict = [work](const Calibration& calibration) {
      return absl::StatusOr<RunPrediction>(Predict(work, 100.0, calibration.Resolve("ampere", "")));
    };
    runs.push_back(std::move(run));
  }
  return runs;
}

CalibrateRequest Request() {
  CalibrateRequest request;
  request.agent = "test 1";
  request.slice_rule_of = [](const std::string&) { return "sha256(id) % 5 == 0"; };
  return request;
}

TEST(CalibrateRuns, MovesWhatTheRunsDetermineAndKeepsTheRest) {
  const absl::StatusOr<CalibrateResult> result = CalibrateRuns(World(60), Request());
  ASSERT_TRUE(result.ok()) << result.status();
  const Coefficients fitted = result->calibration.Resolve("ampere", "");
  EXPECT_NEAR(fitted[kMatrixEfficiency], 0.6, 0.02);
  EXPECT_NEAR(fitted[kContextMemory], 1.5e9, 1e8);
  EXPECT_EQ(fitted[kNetworkLatency], InfoOf(kNetworkLatency).prior);
  // Other families go some of the way, but not where each has a prior of its own.
  const double elsewhere = result->calibration.Resolve("unknown", "")[kContextMemory];
  EXPECT_GT(elsewhere, InfoOf(kContextMemory).prior);
  EXPECT_LT(elsewhere, fitted[kContextMemory]);
  EXPECT_EQ(result->calibration.Resolve("hopper", "")[kMatrixEfficiency],
            Coefficients("hopper")[kMatrixEfficiency]);

  ASSERT_EQ(result->residuals.size(), 2u);
  for (const SourceResiduals& residuals : result->residuals) {
    EXPECT_EQ(residuals.run_count, 60);
    EXPECT_LT(residuals.error_after, residuals.error_before);
    EXPECT_LT(residuals.error_after, 0.03);
  }
  const auto& provenance = result->calibration.content().provenance;
  EXPECT_EQ(provenance.sources,
            (std::vector<Calibration::Source>{{"world", 60, "sha256(id) % 5 == 0"}}));
}

TEST(CalibrateRuns, RangesComeFromTheRunsThatWereFitted) {
  const absl::StatusOr<CalibrateResult> result = CalibrateRuns(World(60), Request());
  ASSERT_TRUE(result.ok());
  const ResidualKey key{ResidualQuantity::kStepDuration, Confidence::kEstimated, "ampere",
                        TensorParallelReach::kWithinNode};
  const RangeFactors range = result->calibration.Range(key);
  EXPECT_EQ(range.residual_count, 60);
  EXPECT_GT(range.lower, 0.85);
  EXPECT_LT(range.upper, 1.15);
  int within = 0;
  for (const MeasuredRun& run : World(60)) {
    const double ratio = *run.step / *run.predict(result->calibration)->step;
    if (ratio >= range.lower && ratio <= range.upper) ++within;
  }
  EXPECT_GE(within, 54);
}

TEST(CalibrateRuns, SmallPeaksMakeNoRange) {
  std::vector<MeasuredRun> runs = World(60);
  int64_t large = 0;
  for (MeasuredRun& run : runs) {
    run.step.reset();
    if (run.memory->count() >= 8'000'000'000) ++large;
  }
  const absl::StatusOr<CalibrateResult> result = CalibrateRuns(runs, Request());
  ASSERT_TRUE(result.ok());
  ASSERT_GT(large, 8);
  ASSERT_LT(large, 60);
  EXPECT_EQ(result->residuals.at(0).run_count, 60);
  for (const ResidualClass& residuals : result->calibration.content().residual_classes) {
    EXPECT_EQ(residuals.residual_count, large);
  }
}

TEST(CalibrateRuns, TheOrderOfRunsDoesNotMatter) {
  std::vector<MeasuredRun> runs = World(30);
  const absl::StatusOr<CalibrateResult> forwards = CalibrateRuns(runs, Request());
  std::reverse(runs.begin(), runs.end());
  const absl::StatusOr<CalibrateResult> backwards = CalibrateRuns(runs, Request());
  ASSERT_TRUE(forwards.ok() && backwards.ok());
  const Coefficients a = forwards->calibration.Resolve("ampere", "");
  const Coefficients b = backwards->calibration.Resolve("ampere", "");
  for (int i = 0; i < kCoefficientCount; ++i) {
    const auto coefficient = static_cast<Coefficient>(i);
    EXPECT_NEAR(a[coefficient] / b[coefficient], 1.0, 1e-5) << InfoOf(coefficient).name;
  }
}

TEST(CalibrateRuns, ListsWhatCannotBePredictedAndRefusesToFitNothing) {
  std::vector<MeasuredRun> runs = World(10);
  runs[3].predict = [](const Calibration&) {
    return absl::StatusOr<RunPrediction>(absl::UnimplementedError("too odd"));
  };
  runs[4].memory.reset();
  const absl::StatusOr<CalibrateResult> result = CalibrateRuns(runs, Request());
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->skipped, (std::vector<std::string>{"run-3: too odd", "run-3: too odd"}));
  EXPECT_EQ(result->residuals[0].run_count, 9);
  EXPECT_EQ(result->residuals[1].run_count, 8);
  EXPECT_EQ(result->calibration.content().provenance.sources[0].row_count, 9);
  const absl::StatusOr<CalibrateResult> none = CalibrateRuns({runs[3]}, Request());
  EXPECT_EQ(none.status().code(), absl::StatusCode::kInvalidArgument);
}

v1::ListExecutionsResponse Executions(int count, double ratio) {
  v1::ListExecutionsResponse executions;
  for (int i = 0; i < count; ++i) {
    v1::Execution& execution = *executions.add_executions();
    execution.set_name(absl::StrCat("clusters/lab/plans/p", i, "/executions/e"));
    execution.mutable_predicted_step_duration()->set_seconds(100);
    execution.mutable_measured_step_duration()->set_seconds(std::lround(100 * ratio));
    execution.set_predicted_peak_memory_bytes(10'000'000'000);
  }
  return executions;
}

double FactorAfter(int count, double ratio) {
  CalibrateRequest request = Request();
  request.base = Calibration::BuiltIn();
  const absl::StatusOr<std::vector<MeasuredRun>> runs =
      RunsOfExecutions(Executions(count, ratio), request.base);
  EXPECT_TRUE(runs.ok());
  const absl::StatusOr<CalibrateResult> result = CalibrateRuns(*runs, request);
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result->calibration.Resolve("ampere", "elsewhere"), Coefficients("ampere"));
  // Ratios make no ranges.
  EXPECT_TRUE(result->calibration.content().residual_classes.empty());
  // Memory was not measured.
  EXPECT_EQ(result->calibration.Resolve("ampere", "lab")[kActivationFactor], 1.0);
  return result->calibration.Resolve("ampere", "lab")[kTimeFactor];
}

TEST(CalibrateRuns, RefusesMoreValuesThanACalibrationHolds) {
  Calibration::Content content = Calibration::BuiltIn()->content();
  for (int i = static_cast<int>(content.coefficient_values.size()); i < 4096; ++i) {
    content.coefficient_values.push_back(
        {.coefficient = Coefficient::kMatrixEfficiency,
         .scope = {.device_family = "", .cluster = absl::StrCat("c", i)},
         .value = 0.5});
  }
  CalibrateRequest request = Request();
  absl::StatusOr<Calibration> full = Calibration::Create(std::move(content));
  ASSERT_TRUE(full.ok()) << full.status();
  request.base = std::make_shared<const Calibration>(*std::move(full));
  const absl::StatusOr<CalibrateResult> result = CalibrateRuns(World(60), request);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << result.status();
}

TEST(ExecutionRuns, MoveTheClusterByMoreTheMoreThereAre) {
  const double one = FactorAfter(1, 1.10);
  const double five = FactorAfter(5, 1.10);
  const double many = FactorAfter(50, 1.10);
  EXPECT_GT(one, 1.0);
  EXPECT_LT(one, five);
  EXPECT_LT(five, many);
  EXPECT_NEAR(many, 1.10, 0.005);
  // These are the figures of docs/calibration.md.
  EXPECT_NEAR(one, 1.08, 0.005);
  EXPECT_NEAR(five, 1.095, 0.005);
  EXPECT_NEAR(FactorAfter(5, 1.0), 1.0, 1e-9);
}

TEST(ExecutionRuns, LeavesOutWhatMeasuredNothingAndRefusesOtherNames) {
  v1::ListExecutionsResponse executions = Executions(3, 1.0);
  executions.mutable_executions(1)->clear_measured_step_duration();
  EXPECT_EQ(RunsOfExecutions(executions, Calibration::BuiltIn())->size(), 2u);
  executions.mutable_executions(2)->set_name("clusters/lab");
  const auto refused = RunsOfExecutions(executions, Calibration::BuiltIn());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(GetErrorDetail(refused.status())->metadata.at("field"), "executions[2].name");
}

// A calibration with these values, named as the wire names it.
std::shared_ptr<const Calibration> Named(std::vector<CoefficientValue> values) {
  Calibration::Content content;
  content.provenance.agent = "calibrate_test 1";
  content.coefficient_values = std::move(values);
  content.digest = CalibrationDigest(content);
  return std::make_shared<const Calibration>(*Calibration::Create(std::move(content)));
}

CoefficientValue TimeFactor(double value) {
  return {.coefficient = kTimeFactor, .scope = {.cluster = "lab"}, .value = value};
}

TEST(ExecutionRuns, FittingAgainToTheSameExecutionsDoesNotCompound) {
  const std::shared_ptr<const Calibration> first = Named({TimeFactor(1.0)});
  v1::ListExecutionsResponse executions = Executions(50, 1.10);
  for (v1::Execution& execution : *executions.mutable_executions()) {
    execution.set_calibration_digest(first->content().digest);
  }
  CalibrateRequest request = Request();
  std::shared_ptr<const Calibration> base = first;
  for (int round = 0; round < 3; ++round) {
    request.base = base;
    const auto runs = RunsOfExecutions(executions, base, {first});
    ASSERT_TRUE(runs.ok()) << runs.status();
    const auto fitted = CalibrateRuns(*runs, request);
    ASSERT_TRUE(fitted.ok()) << fitted.status();
    const double factor = fitted->calibration.Resolve("ampere", "lab")[kTimeFactor];
    EXPECT_NEAR(factor, 1.10, 0.01) << round;
    base = Named({TimeFactor(factor)});
  }
}

TEST(ExecutionRuns, ACalibrationThatIsNotKnownOrNotOfTheLineIsRefusedByName) {
  const std::shared_ptr<const Calibration> base = Named({TimeFactor(1.1)});
  const std::shared_ptr<const Calibration> other =
      Named({TimeFactor(1.0), {.coefficient = Coefficient::kMatrixEfficiency, .value = 0.5}});
  v1::ListExecutionsResponse executions = Executions(2, 1.10);
  executions.mutable_executions(1)->set_calibration_digest(other->content().digest);
  for (const auto& others :
       std::vector<std::vector<std::shared_ptr<const Calibration>>>{{}, {base}, {base, other}}) {
    const auto refused = RunsOfExecutions(executions, base, others);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(GetErrorDetail(refused.status())->metadata.at("field"),
              "executions[1].calibration_digest");
    EXPECT_NE(refused.status().message().find(other->content().digest.substr(0, 12)),
              absl::string_view::npos);
  }
  // Values of other clusters are another matter.
  const std::shared_ptr<const Calibration> elsewhere =
      Named({TimeFactor(1.0),
             {.coefficient = Coefficient::kMatrixEfficiency,
              .scope = {.cluster = "moon"},
              .value = 0.5}});
  executions.mutable_executions(1)->set_calibration_digest(elsewhere->content().digest);
  EXPECT_TRUE(RunsOfExecutions(executions, base, {elsewhere}).ok());
}

TEST(RunSlice, TakesTheRunsOfOneSourceByTheHashOfTheirIds) {
  const absl::StatusOr<RunSlice> slice = RunSlice::Parse("world: sha256(id) % 16 == 10", "--slice");
  ASSERT_TRUE(slice.ok()) << slice.status();
  EXPECT_EQ(slice->RuleOf("world"), "sha256(id) % 16 == 10");
  EXPECT_EQ(slice->RuleOf("moon"), "");
  // A modulus of 16 depends only on the last digit of the digest.
  int taken = 0;
  for (int i = 0; i < 320; ++i) {
    const std::string id = absl::StrCat("run-", i);
    EXPECT_EQ(slice->Holds("world", id), Sha256Hex(id).back() == 'a') << id;
    EXPECT_FALSE(slice->Holds("moon", id));
    if (slice->Holds("world", id)) ++taken;
  }
  EXPECT_GT(taken, 5);
  // SHA-256 of "abc" is ...f20015ad: modulo 5 the sum of its digits (16 = 1 modulo 5).
  int sum = 0;
  for (char digit : Sha256Hex("abc")) sum += digit <= '9' ? digit - '0' : digit - 'a' + 10;
  for (int i = 0; i < 5; ++i) {
    const auto of_five = RunSlice::Parse(absl::StrCat("world: sha256(id) % 5 == ", i), "--slice");
    EXPECT_EQ(of_five->Holds("world", "abc"), sum % 5 == i);
  }
  EXPECT_TRUE(RunSlice::Parse("world: all", "--slice")->Holds("world", "anything"));
  EXPECT_FALSE(RunSlice::Parse("none", "--slice")->Holds("world", "anything"));
  EXPECT_FALSE(RunSlice::Parse("none", "--slice")->Holds("", "anything"));
}

TEST(RunSlice, HasSeveralRulesAndNamesThatBeginAlike) {
  const absl::StatusOr<RunSlice> slice =
      RunSlice::Parse("world: all; moon-*: sha256(id) % 3 == 0 ;mars: all", "--slice");
  ASSERT_TRUE(slice.ok()) << slice.status();
  EXPECT_TRUE(slice->Names("world"));
  EXPECT_FALSE(slice->Names("world-2"));
  EXPECT_TRUE(slice->Names("moon-2"));
  EXPECT_FALSE(slice->Names("moon"));
  EXPECT_EQ(slice->RuleOf("moon-2"), "sha256(id) % 3 == 0");
  EXPECT_EQ(slice->RuleOf("mars"), "");
  const RunSlice moon = *RunSlice::Parse("moon-1: sha256(id) % 3 == 0", "--slice");
  for (int i = 0; i < 30; ++i) {
    const std::string id = absl::StrCat("run-", i);
    EXPECT_EQ(slice->Holds("moon-1", id), moon.Holds("moon-1", id));
    EXPECT_TRUE(slice->Holds("mars", id));
  }
  for (const char* text : {kPublishedTimeSlice, kPublishedMemorySlice}) {
    EXPECT_TRUE(RunSlice::Parse(text, "--slice").ok()) << text;
  }
}

TEST(RunSlice, TakesSourcesWithoutTheBlanksAroundThem) {
  const absl::StatusOr<RunSlice> slice =
      RunSlice::Parse(" world : all;moon-* : sha256(id) % 3 == 0 ", "--slice");
  ASSERT_TRUE(slice.ok()) << slice.status();
  EXPECT_TRUE(slice->Holds("world", "anything"));
  EXPECT_FALSE(slice->Names("world "));
  EXPECT_EQ(slice->RuleOf("moon-2"), "sha256(id) % 3 == 0");
  EXPECT_FALSE(slice->Names("mars"));
}

TEST(RunSlice, RefusesOtherTexts) {
  for (const char* text :
       {"", " : all", "world : all; world: all", "moon-* : all; moon-1: all",
        "world: all; world: all", "wo*: all; world: all", "world: all; wo*: all", "world: all;",
        "world: all, moon: all", "*", "world", "world: sha256(id) % 0 == 0", ": all",
        "world: sha256(id) % 5 == 5", "world: md5(id) % 5 == 0", "world: sha256(id) % 5 = 0",
        "world: sha256(id) % 2000 == 0"}) {
    const absl::StatusOr<RunSlice> slice = RunSlice::Parse(text, "--time-slice");
    ASSERT_FALSE(slice.ok()) << text;
    EXPECT_EQ(GetErrorDetail(slice.status())->metadata.at("field"), "--time-slice");
  }
}

}  // namespace
}  // namespace parplan::planctl
