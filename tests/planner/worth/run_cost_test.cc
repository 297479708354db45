#include "planner/worth/run_cost.h"

#include <limits>

#include "gtest/gtest.h"
#include "tests/support/rejection.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// Two stages of four devices; a step of 2 s, of which the second stage waits a quarter.
PredictedPlan TwoStages() {
  PredictedPlan plan;
  plan.plan.device_count = 8;
  plan.plan.global_batch_size = 16;
  plan.plan.stages.resize(2);
  plan.plan.stages[0].rank_count = 4;
  plan.plan.stages[1].first_rank = 4;
  plan.plan.stages[1].rank_count = 4;
  plan.prediction.step = Seconds::Of(2.0);
  plan.prediction.step_upper = Seconds::Of(2.5);
  plan.prediction.stages.resize(2);
  plan.prediction.stages[1].idle_ratio = 0.25;
  return plan;
}

TEST(CostOfRun, IsTimeTimesDevicesTimesPriceAndPower) {
  DeviceTerms terms;
  terms.price_per_device_hour = 3.0;
  terms.power_watts = 700.0;
  terms.idle_power_watts = 100.0;
  ASSERT_OK_AND_ASSIGN(const RunCost cost, CostOfRun(1800, terms, 0, TwoStages()));
  // 1800 steps of 2 s are an hour: 8 device-hours at 3 each.
  EXPECT_DOUBLE_EQ(cost.time.value(), 3600.0);
  EXPECT_DOUBLE_EQ(cost.time_upper.value(), 4500.0);
  EXPECT_DOUBLE_EQ(cost.device_hours, 8.0);
  EXPECT_DOUBLE_EQ(cost.money, 24.0);
  EXPECT_DOUBLE_EQ(cost.money_upper, 30.0);
  // 4 * 700 W, and 4 * (0.75 * 700 + 0.25 * 100) = 2200 W.
  EXPECT_DOUBLE_EQ(*cost.energy_joules, 5000.0 * 3600.0);
}

TEST(CostOfRun, PaysForSpareDevicesAndCountsThemAsWaiting) {
  DeviceTerms terms;
  terms.price_per_device_hour = 3.0;
  terms.power_watts = 700.0;
  terms.idle_power_watts = 100.0;
  ASSERT_OK_AND_ASSIGN(const RunCost cost, CostOfRun(1800, terms, 2, TwoStages()));
  EXPECT_DOUBLE_EQ(cost.device_hours, 10.0);
  EXPECT_DOUBLE_EQ(cost.money, 30.0);
  EXPECT_DOUBLE_EQ(*cost.energy_joules, (5000.0 + 200.0) * 3600.0);
}

TEST(CostOfRun, CountsWaitingAsWorkIfItsPowerIsUnknown) {
  DeviceTerms terms;
  terms.power_watts = 700.0;
  ASSERT_OK_AND_ASSIGN(const RunCost cost, CostOfRun(1800, terms, 0, TwoStages()));
  EXPECT_DOUBLE_EQ(*cost.energy_joules, 8.0 * 700.0 * 3600.0);
  EXPECT_EQ(cost.money, 0.0);
  terms.power_watts.reset();
  ASSERT_OK_AND_ASSIGN(const RunCost unknown, CostOfRun(1800, terms, 0, TwoStages()));
  EXPECT_FALSE(unknown.energy_joules.has_value());
}

TEST(CostOfRun, OfTheLargestQuestionIsFiniteAndAnAbsurdStepIsRefused) {
  DeviceTerms terms;
  terms.price_per_device_hour = kMaxPricePerDeviceHour;
  terms.power_watts = kMaxPowerWatts;
  PredictedPlan plan = TwoStages();
  plan.plan.device_count = 262144;
  EXPECT_OK(CostOfRun(kMaxRunStepCount, terms, int64_t{kMaxSpareNodeCount} * 1024, plan).status());
  plan.prediction.step_upper = Seconds::Of(std::numeric_limits<double>::max());
  EXPECT_EQ(Rejection(CostOfRun(2, terms, 0, plan).status()), "SPEC_INVALID money");
}

}  // namespace
}  // namespace parplan
