// Costs on two node groups with unlike devices.

#include "planner/cost/group_costs.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/check/plan_check.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/predict_plan.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;

constexpr GroupIndex kFast = kFirstGroup;
constexpr GroupIndex kSlow{1};
constexpr int kDecoderLayer = 1;

// One node of eight devices.
EstimatedOptions OneNode(double speed) {
  return {.device_count = 8,
          .decoder_count = 6,
          .hidden_size = 1024,
          .attention_head_count = 16,
          .sequence_length = 512,
          .tied_embedding = false,
          .global_batch_size = 64,
          .device_speed = speed,
          .link_speed = speed};
}

PlanningProblem Fast() { return EstimatedProblem(OneNode(1.0)); }
PlanningProblem Slow() { return EstimatedProblem(OneNode(0.25)); }
PlanningProblem Both() { return JoinedProblem(Fast(), Slow()); }

CostModel CostsOf(const PlanningProblem& problem) { return *CostModel::Create(problem); }

Strategy TensorParallel() { return {.tensor_parallel_degree = 8, .sequence_parallel = true}; }
Strategy DataParallel() { return {.data_parallel_degree = 8}; }

TEST(GroupCosts, AreThoseOfTheGroupAlone) {
  const CostModel both = CostsOf(Both());
  const CostModel fast = CostsOf(Fast());
  const CostModel slow = CostsOf(Slow());
  for (int definition = 0; definition < 3; ++definition) {
    for (const Strategy& strategy : {TensorParallel(), DataParallel()}) {
      SCOPED_TRACE(testing::Message() << definition << ", " << strategy.tensor_parallel_degree);
      const LayerCost on_fast = both.group(kFast).CostOfLayer(definition, strategy, 16, 2);
      const LayerCost on_slow = both.group(kSlow).CostOfLayer(definition, strategy, 16, 2);
      const LayerCost fast_alone = fast.group(kFirstGroup).CostOfLayer(definition, strategy, 16, 2);
      const LayerCost slow_alone = slow.group(kFirstGroup).CostOfLayer(definition, strategy, 16, 2);
      EXPECT_EQ(on_fast.forward, fast_alone.forward);
      EXPECT_EQ(on_fast.backward, fast_alone.backward);
      EXPECT_EQ(on_fast.gradient_sync, fast_alone.gradient_sync);
      EXPECT_EQ(on_fast.optimizer_step, fast_alone.optimizer_step);
      EXPECT_EQ(on_slow.forward, slow_alone.forward);
      EXPECT_EQ(on_slow.backward, slow_alone.backward);
      EXPECT_EQ(on_slow.gradient_sync, slow_alone.gradient_sync);
      EXPECT_EQ(on_slow.optimizer_step, slow_alone.optimizer_step);
      // Looking up the embedding's table takes as long as its launches on both.
      EXPECT_LE(on_fast.forward, on_slow.forward);
      EXPECT_LT(on_fast.optimizer_step, on_slow.optimizer_step);
      if (definition == kDecoderLayer) {
        EXPECT_LT(on_fast.forward, on_slow.forward);
      }
    }
  }
  EXPECT_EQ(
      both.group(kSlow).TransitionTime(kDecoderLayer, TensorParallel(), DataParallel(), 16),
      slow.group(kFirstGroup).TransitionTime(kDecoderLayer, TensorParallel(), DataParallel(), 16));
}

TEST(CostModel, AMessageBetweenGroupsTakesAsLongAsTheSlowerEnd) {
  const CostModel costs = CostsOf(Both());
  const auto send = [&](GroupIndex from, GroupIndex to) {
    return costs.SendTime(from, to, kDecoderLayer, DataParallel(), DataParallel(), 8, true, 16);
  };
  EXPECT_LT(send(kFast, kFast), send(kSlow, kSlow));
  EXPECT_EQ(send(kFast, kSlow), send(kSlow, kSlow));
  EXPECT_EQ(send(kSlow, kFast), send(kSlow, kSlow));
}

// The wider tensor-parallel group gathers, on whichever side of the message it is.
TEST(CostModel, EachEndOfAMessageReshardsOnItsGroup) {
  const CostModel costs = CostsOf(Both());
  const auto resharding = [&](GroupIndex from, GroupIndex to, const Strategy& a,
                              const Strategy& b) {
    const Seconds message = std::max(costs.group(from).MessageTime(kDecoderLayer, a, 8, true, 16),
                                     costs.group(to).MessageTime(kDecoderLayer, a, 8, true, 16));
    return (costs.SendTime(from, to, kDecoderLayer, a, b, 8, true, 16) - message).value();
  };
  const auto half_gather = [&](GroupIndex group) {
    return 0.5 *
           costs.group(group).ReshardingTimesOf(kDecoderLayer, TensorParallel(), 16).gather.value();
  };
  EXPECT_LT(half_gather(kFast), half_gather(kSlow));
  EXPECT_NEAR(resharding(kFast, kSlow, TensorParallel(), DataParallel()), half_gather(kFast),
              1e-12);
  EXPECT_NEAR(resharding(kFast, kSlow, DataParallel(), TensorParallel()), half_gather(kSlow),
              1e-12);
}

TEST(CostModel, NamesTheGroupOfEachEstimate) {
  const CostModel costs = CostsOf(Both());
  EXPECT_EQ(costs.estimated_items().size(), 2 * CostsOf(Fast()).estimated_items().size());
  for (const std::string& item : costs.estimated_items()) {
    EXPECT_TRUE(item.starts_with("nodes: ") || item.starts_with("joined: ")) << item;
  }
  EstimatedOptions options = OneNode(1.0);
  options.rules.allow_estimates = false;
  const PlanningProblem unknown = EstimatedProblem(options);
  EXPECT_THAT(CostModel::Create(JoinedProblem(unknown, unknown)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("joined: ")));
}

TEST(PlanEvaluator, PricesEachStageOnItsGroup) {
  const PlanningProblem problem = Both();
  const CostModel costs = CostsOf(problem);
  const UniformPlan uniform = {
      .pipeline_parallel_degree = 2, .micro_batch_count = 4, .strategy = DataParallel()};
  const Plan plan = PlanOf(problem, uniform);
  const Prediction prediction = PredictPlan(problem, costs, plan);
  EXPECT_OK(CheckPlan(problem, costs, plan, prediction));
  const auto decoders = [&](GroupIndex group) {
    return costs.group(group).CostOfLayer(kDecoderLayer, DataParallel(), 16, 2).forward * 3.0;
  };
  const auto other = [&](GroupIndex group, int definition) {
    return costs.group(group).CostOfLayer(definition, DataParallel(), 16, 2).forward;
  };
  EXPECT_NEAR(prediction.stages[0].forward.value(), (decoders(kFast) + other(kFast, 0)).value(),
              1e-12);
  EXPECT_NEAR(prediction.stages[1].forward.value(), (decoders(kSlow) + other(kSlow, 2)).value(),
              1e-12);
  EXPECT_EQ(prediction.stages[0].send, costs.SendTime(kFast, kSlow, kDecoderLayer, DataParallel(),
                                                      DataParallel(), 8, true, 16));
  // The same layers under the same strategies are not the same stage on another group.
  const PlanningProblem reversed = JoinedProblem(Slow(), Fast());
  EXPECT_NE(PredictPlan(reversed, CostsOf(reversed), plan).step, prediction.step);
}

TEST(CheckPlanStructure, AStageDoesNotCrossGroups) {
  const PlanningProblem problem = Both();
  const UniformPlan whole = {.micro_batch_count = 4, .strategy = {.data_parallel_degree = 16}};
  EXPECT_THAT(CheckPlanStructure(problem, PlanOf(problem, whole)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("several node groups")));
}

}  // namespace
}  // namespace parplan
