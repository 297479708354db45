#include "planner/worth/measure_next.h"

#include <cmath>
#include <variant>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/find_plan.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/status_matchers.h"
#include "tests/support/synthetic_problem.h"

namespace parplan {
namespace {

using testing::Contains;
using testing::HasSubstr;

PlanningProblem TwoNodes() {
  EstimatedOptions options;
  options.device_count = 16;
  options.decoder_count = 4;
  options.hidden_size = 2048;
  options.attention_head_count = 16;
  options.global_batch_size = 64;
  return EstimatedProblem(options);
}

Plan SpreadOver(const PlanningProblem& problem, int tensor_parallel_degree, int stage_count) {
  UniformPlan uniform;
  uniform.pipeline_parallel_degree = stage_count;
  uniform.micro_batch_count = 4;
  uniform.strategy.tensor_parallel_degree = tensor_parallel_degree;
  uniform.strategy.data_parallel_degree = 16 / stage_count / tensor_parallel_degree;
  return PlanOf(problem, uniform);
}

const MeasureStep* FindStep(const MeasureNext& next, MeasureTarget target) {
  for (const MeasureStep& step : next.steps) {
    if (step.target == target) return &step;
  }
  return nullptr;
}

TEST(FindMeasureNext, OrdersWhatWasNotMeasuredByItsShareOfTheVariance) {
  const PlanningProblem problem = TwoNodes();
  const Plan plan = SpreadOver(problem, 2, 1);
  ASSERT_OK_AND_ASSIGN(const MeasureNext next, FindMeasureNext({problem, plan}, nullptr));
  ASSERT_FALSE(next.steps.empty());
  double shares = 0.0;
  double variance = 0.0;
  for (size_t i = 0; i < next.steps.size(); ++i) {
    if (i > 0) {
      EXPECT_LE(next.steps[i].share, next.steps[i - 1].share);
    }
    shares += next.steps[i].share;
    variance += next.steps[i].plan_deviation * next.steps[i].plan_deviation;
  }
  EXPECT_NEAR(shares, 1.0, 1e-12);
  EXPECT_NEAR(std::sqrt(variance), next.plan_deviation, 1e-12);
  // Layers are computed, and their gradients cross nodes.
  const MeasureStep* const layers = FindStep(next, MeasureTarget::kLayers);
  ASSERT_NE(layers, nullptr);
  EXPECT_THAT(layers->entries, Contains(HasSubstr("tensor_parallel_degree 2")));
  const MeasureStep* const network = FindStep(next, MeasureTarget::kInterNodeCollectives);
  ASSERT_NE(network, nullptr);
  EXPECT_THAT(network->entries, Contains(HasSubstr("participant_count 8, rank_stride 2")));
}

TEST(FindMeasureNext, ADeviceOfMoreEfficiencyIsFaster) {
  const PlanningProblem problem = TwoNodes();
  const Plan plan = SpreadOver(problem, 1, 1);
  ASSERT_OK_AND_ASSIGN(const MeasureNext next, FindMeasureNext({problem, plan}, nullptr));
  int seen = 0;
  for (const MeasureStep& step : next.steps) {
    for (const UncertainCoefficient& uncertain : step.coefficients) {
      if (uncertain.coefficient == Coefficient::kMatrixEfficiency) {
        EXPECT_LT(uncertain.plan_change, 0.0);
        // No more of the step than all of it scales with the coefficient.
        EXPECT_GE(uncertain.plan_change, -uncertain.width * 1.001);
        ++seen;
      }
      if (uncertain.coefficient == Coefficient::kTimeFactor) {
        EXPECT_GT(uncertain.plan_change, 0.0);
        ++seen;
      }
    }
  }
  EXPECT_EQ(seen, 2);
}

TEST(FindMeasureNext, APlanDiffersInNothingFromItself) {
  const PlanningProblem problem = TwoNodes();
  const Plan plan = SpreadOver(problem, 2, 1);
  const PlanOfProblem same = {problem, plan};
  ASSERT_OK_AND_ASSIGN(const MeasureNext next, FindMeasureNext(same, &same));
  EXPECT_EQ(next.log_time_ratio, 0.0);
  EXPECT_EQ(next.difference_deviation, 0.0);
  EXPECT_GT(next.plan_deviation, 0.0);
  EXPECT_FALSE(next.is_decided());
}

TEST(FindMeasureNext, TheDifferenceOfTwoPlansIsThatOfTheirChanges) {
  const PlanningProblem problem = TwoNodes();
  const Plan plan = SpreadOver(problem, 1, 1);
  const Plan rival = SpreadOver(problem, 8, 1);
  const PlanOfProblem of_rival = {problem, rival};
  ASSERT_OK_AND_ASSIGN(const MeasureNext next, FindMeasureNext({problem, plan}, &of_rival));
  const PlanOfProblem of_plan = {problem, plan};
  ASSERT_OK_AND_ASSIGN(const MeasureNext swapped, FindMeasureNext(of_rival, &of_plan));
  EXPECT_DOUBLE_EQ(next.log_time_ratio, -swapped.log_time_ratio);
  EXPECT_DOUBLE_EQ(next.difference_deviation, swapped.difference_deviation);
  double variance = 0.0;
  for (const MeasureStep& step : next.steps) {
    for (const UncertainCoefficient& uncertain : step.coefficients) {
      variance += std::pow(uncertain.plan_change - uncertain.rival_change, 2);
    }
  }
  EXPECT_NEAR(next.difference_deviation, std::sqrt(variance), 1e-12);
  EXPECT_GT(next.difference_deviation, 0.0);
}

TEST(FindMeasureNext, WhatIsMeasuredIsNotAskedForAgain) {
  const PlanningProblem problem = SyntheticProblem();
  ASSERT_OK_AND_ASSIGN(const PlanningResult result, FindPlan(problem, "exact", {}));
  const Plan& plan = std::get<PlanFound>(result).plan;
  ASSERT_OK_AND_ASSIGN(const MeasureNext next, FindMeasureNext({problem, plan}, nullptr));
  // The optimizer's step rests on a coefficient that layers without measurements have too.
  const MeasureStep* const layers = FindStep(next, MeasureTarget::kLayers);
  EXPECT_TRUE(layers == nullptr || layers->entries.empty());
  EXPECT_EQ(FindStep(next, MeasureTarget::kIntraNodeCollectives), nullptr);
}

}  // namespace
}  // namespace parplan
