#include "clients/sidecar/drift_meter.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/sidecar/journal_cases.h"

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
  meter.SetPrediction(Predicted());
  EXPECT_FALSE(meter.Get().step_ratio.has_value());
  EXPECT_FALSE(meter.Get().memory_ratio.has_value());
  EXPECT_FALSE(meter.Get().is_drifting);
}

TEST(DriftMeter, TheFirstWindowOfARankCountsOnlyAlone) {
  DriftMeter meter(1.25);
  meter.SetPrediction(Predicted());
  meter.Add({Window(0, 0, 400), Window(1, 0, 400)});
  EXPECT_DOUBLE_EQ(*meter.Get().step_ratio, 4.0);
  EXPECT_TRUE(meter.Get().is_drifting);
  meter.Add({Window(0, 10, 110), Window(1, 10, 110)});
  EXPECT_DOUBLE_EQ(*meter.Get().step_ratio, 1.1);
  EXPECT_FALSE(meter.Get().is_drifting);
}

TEST(DriftMeter, BothDirectionsDrift) {
  for (const auto& [milliseconds, drifts] :
       std::vector<std::pair<int, bool>>{{79, true}, {81, false}, {124, false}, {126, true}}) {
    DriftMeter meter(1.25);
    meter.SetPrediction(Predicted());
    meter.Add({Window(0, 0, 500), Window(0, 10, milliseconds)});
    EXPECT_EQ(meter.Get().is_drifting, drifts) << milliseconds;
  }
}

TEST(DriftMeter, OldWindowsAreForgotten) {
  DriftMeter meter(1.25, /*window_count=*/3);
  meter.SetPrediction(Predicted());
  for (int i = 0; i < 10; ++i) meter.Add({Window(0, 10 * i, 200)});
  for (int i = 10; i < 13; ++i) meter.Add({Window(0, 10 * i, 100)});
  EXPECT_DOUBLE_EQ(*meter.Get().step_ratio, 1.0);
}

TEST(DriftMeter, MemoryIsTheHighestPeak) {
  DriftMeter meter(1.25);
  meter.SetPrediction(Predicted());
  meter.Add({Window(0, 0, 100, 900), Window(1, 0, 100, 1100), Window(2, 0, 100, 0)});
  EXPECT_DOUBLE_EQ(*meter.Get().memory_ratio, 1.1);
}

TEST(DriftMeter, AnotherPlanBeginsAnew) {
  DriftMeter meter(1.25);
  meter.SetPrediction(Predicted());
  meter.Add({Window(0, 0, 300), Window(0, 10, 300)});
  EXPECT_TRUE(meter.Get().is_drifting);
  meter.SetPrediction(Predicted());
  EXPECT_FALSE(meter.Get().step_ratio.has_value());
}

}  // namespace
}  // namespace parplan::sidecar
