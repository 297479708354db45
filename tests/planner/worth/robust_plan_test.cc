#include "planner/worth/robust_plan.h"

#include <algorithm>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parplan {
namespace {

// A plan of so many micro-batches, by which tests tell plans apart.
PredictedPlan PlanTaking(double step, double upper, int64_t micro_batch_count, int64_t batch = 16) {
  PredictedPlan plan;
  plan.plan.global_batch_size = batch;
  plan.plan.micro_batch_count = micro_batch_count;
  plan.plan.stages.resize(1);
  plan.prediction.step = Seconds::Of(step);
  plan.prediction.step_upper = Seconds::Of(upper);
  return plan;
}

PlanFound Found(const std::vector<PredictedPlan>& plans) {
  PlanFound found;
  found.plan = plans.front().plan;
  found.prediction = plans.front().prediction;
  found.alternatives.assign(plans.begin() + 1, plans.end());
  found.search.termination = Termination::kOptimal;
  found.search.limit = SearchLimit::kNone;
  found.search.bound = plans.front().prediction.step;
  found.search.gap_ratio = 0.0;
  return found;
}

TEST(WithRobustPlan, TakesThePlanWhoseRangeEndsEarliestWithinOnePercent) {
  // The third is the safest, but 2 % slower than the first.
  const PlanFound robust = WithRobustPlan(
      Found({PlanTaking(1.0, 1.3, 1), PlanTaking(1.008, 1.2, 2), PlanTaking(1.02, 1.05, 4)}), 1);
  EXPECT_EQ(robust.plan.micro_batch_count, 2);
  ASSERT_EQ(robust.alternatives.size(), 1u);
  EXPECT_EQ(robust.alternatives[0].plan.micro_batch_count, 1);
  EXPECT_EQ(robust.search.termination, Termination::kFeasible);
  EXPECT_EQ(robust.search.limit, SearchLimit::kMethod);
  EXPECT_EQ(robust.search.bound, Seconds::Of(1.0));
  EXPECT_NEAR(robust.search.gap_ratio, 0.008 / 1.008, 1e-12);
  ASSERT_EQ(robust.notes.size(), 1u);
  EXPECT_THAT(robust.notes[0], testing::HasSubstr("of 2 plans within 1 %"));
}

TEST(WithRobustPlan, LeavesAProofToTheFastestPlan) {
  const PlanFound robust =
      WithRobustPlan(Found({PlanTaking(1.0, 1.2, 1), PlanTaking(1.001, 1.3, 2)}), 4);
  EXPECT_EQ(robust.plan.micro_batch_count, 1);
  EXPECT_EQ(robust.search.termination, Termination::kOptimal);
  EXPECT_EQ(robust.search.gap_ratio, 0.0);
  EXPECT_EQ(robust.alternatives.size(), 1u);
}

TEST(WithRobustPlan, ComparesPlansOfSeveralBatchesBySample) {
  // 1 s for 16 samples, and 2.01 s for 32.
  const PlanFound robust =
      WithRobustPlan(Found({PlanTaking(1.0, 1.5, 1, 16), PlanTaking(2.01, 2.4, 1, 32)}), 1);
  EXPECT_EQ(robust.plan.global_batch_size, 32);
  EXPECT_EQ(robust.search.bound, Seconds::Of(2.0));
}

TEST(WithRobustPlan, NoPlanWithinOnePercentIsSafer) {
  std::mt19937 random(5);
  int moved = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<PredictedPlan> plans;
    const int count = 1 + static_cast<int>(random() % 6);
    for (int i = 0; i < count; ++i) {
      const double step = 1.0 + static_cast<double>(random() % 20) * 0.001;
      plans.push_back(
          PlanTaking(step, step * (1.1 + static_cast<double>(random() % 5) * 0.02), i + 1));
    }
    std::sort(plans.begin(), plans.end(), IsBetterPlan);
    const PlanFound robust = WithRobustPlan(Found(plans), count);
    EXPECT_EQ(robust.alternatives.size(), plans.size() - 1);
    if (robust.plan.micro_batch_count != plans[0].plan.micro_batch_count) ++moved;
    EXPECT_LE(robust.prediction.step, plans[0].prediction.step * 1.01);
    for (const PredictedPlan& plan : plans) {
      if (plan.prediction.step > plans[0].prediction.step * 1.01) continue;
      EXPECT_LE(robust.prediction.step_upper, plan.prediction.step_upper);
    }
  }
  EXPECT_GT(moved, 200);
}

}  // namespace
}  // namespace parplan
