#include "clients/kubernetes/drift_meter.h"

#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/clients/kubernetes/journal_cases.h"

namespace parplan::sidecar {
namespace {

// 100 ms a step, 1000 bytes.
v1::Prediction Predicted() {
  v1::Prediction prediction;
  prediction.mutable_step_duration()->set_nanos(100'000'000);
  prediction.set_peak_memory_bytes(1000);
  return prediction;
}

v1::MeasuredWindow Window(int rank, int64_t first_step, int milliseconds, int64_t peak = 0) {
  v1::MeasuredWindow window = Windows({first_step})[0];
  window.set_rank(rank);
  window.mutable_median_step_duration()->set_nanos(milliseconds * 1'000'000);
  window.set_peak_memory_bytes(peak);
  return window;
}

TEST(DriftMeter, SaysNothingBeforeThereIsSomething) {
  DriftMeter meter(1.25);
  EXPECT_FALSE(meter.Get().step_ratio.has_value());
  meter.AddPlan(kPlan, Predicted());
  EXPECT_FALSE(meter.Get().step_ratio.has_value());
  EXPECT_FALSE(meter.Get().memory_ratio.has_value());
  EXPECT_FALSE(meter.Get().is_drifting);
}

TEST(DriftMeter, TheFirstWindowOfARankCountsOnlyAlone) {
  DriftMeter meter(1.25);
  meter.AddPlan(kPlan, Predicted());
  meter.Add(kPlan, {Window(0, 0, 400), Window(1, 0, 400)});
  EXPECT_DOUBLE_EQ(*meter.Get().step_ratio, 4.0);
  EXPECT_TRUE(meter.Get().is_drifting);
  meter.Add(kPlan, {Window(0, 10, 110), Window(1, 10, 110)});
  EXPECT_DOUBLE_EQ(*meter.Get().step_ratio, 1.1);
  EXPECT_FALSE(meter.Get().is_drifting);
}

TEST(DriftMeter, BothDirectionsDrift) {
  for (const auto& [milliseconds, drifts] :
       std::vector<std::pair<int, bool>>{{79, true}, {81, false}, {124, false}, {126, true}}) {
    DriftMeter meter(1.25);
    meter.AddPlan(kPlan, Predicted());
    meter.Add(kPlan, {Window(0, 0, 500), Window(0, 10, milliseconds)});
    EXPECT_EQ(meter.Get().is_drifting, drifts) << milliseconds;
  }
}

TEST(DriftMeter, OldWindowsAreForgotten) {
  DriftMeter meter(1.25, /*window_count=*/3);
  meter.AddPlan(kPlan, Predicted());
  for (int i = 0; i < 10; ++i) meter.Add(kPlan, {Window(0, 10 * i, 200)});
  for (int i = 10; i < 13; ++i) meter.Add(kPlan, {Window(0, 10 * i, 100)});
  EXPECT_DOUBLE_EQ(*meter.Get().step_ratio, 1.0);
}

TEST(DriftMeter, MemoryIsTheHighestPeak) {
  DriftMeter meter(1.25);
  meter.AddPlan(kPlan, Predicted());
  meter.Add(kPlan, {Window(0, 0, 100, 900), Window(1, 0, 100, 1100), Window(2, 0, 100, 0)});
  EXPECT_DOUBLE_EQ(*meter.Get().memory_ratio, 1.1);
}

TEST(DriftMeter, AnotherPlanCountsWhenTheJobTakesIt) {
  DriftMeter meter(1.25);
  meter.AddPlan(kPlan, Predicted());
  meter.Add(kPlan, {Window(0, 0, 100), Window(0, 10, 100)});
  v1::Prediction faster = Predicted();
  faster.mutable_step_duration()->set_nanos(50'000'000);
  meter.AddPlan("clusters/lab/plans/p2", faster);
  // The job goes on under the plan it has.
  meter.Add(kPlan, {Window(0, 20, 100)});
  EXPECT_DOUBLE_EQ(*meter.Get().step_ratio, 1.0);
  EXPECT_FALSE(meter.Get().is_drifting);
  meter.Add("clusters/lab/plans/p2", {Window(0, 0, 50), Window(0, 10, 100)});
  EXPECT_DOUBLE_EQ(*meter.Get().step_ratio, 2.0);
  EXPECT_TRUE(meter.Get().is_drifting);
  // Late windows, and windows of an unknown plan.
  meter.Add(kPlan, {Window(0, 30, 700)});
  meter.Add("clusters/lab/plans/p3", {Window(0, 0, 700)});
  EXPECT_DOUBLE_EQ(*meter.Get().step_ratio, 2.0);
}

TEST(DriftMeter, ThePlanOfTheJobIsNotForgottenForThoseItDidNotTake) {
  DriftMeter meter(1.25);
  meter.AddPlan(kPlan, Predicted());
  for (int i = 0; i < 100; ++i) meter.AddPlan(absl::StrCat("clusters/lab/plans/x", i), Predicted());
  meter.Add(kPlan, {Window(0, 0, 100)});
  EXPECT_DOUBLE_EQ(*meter.Get().step_ratio, 1.0);
  meter.Add("clusters/lab/plans/x99", {Window(0, 0, 200)});
  EXPECT_DOUBLE_EQ(*meter.Get().step_ratio, 2.0);
}

}  // namespace
}  // namespace parplan::sidecar
