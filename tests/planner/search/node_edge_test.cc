// Stages that are smaller than a node, or no divisor of one: some messages leave the node
// and others do not.

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/check/plan_check.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/predict_plan.h"
#include "planner/planners/exact/exact_search.h"
#include "tests/planner/search/weak_points.h"
#include "tests/support/brute_force_plans.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/hand_made_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using enum SearchDimension;

// Milliseconds to send 384 bytes at half of `seconds_per_byte`.
constexpr double kWithinNode = 384 * 0.5e-6 * 1e3;
constexpr double kSlowdown = 20.0;

// [stage but the last], in milliseconds, of a pipeline of `depth` stages.
std::vector<double> SendsOf(int device_count, int devices_per_node, int depth) {
  HandMadeOptions options{.layers = {{.count = depth}},
                          .device_count = device_count,
                          .devices_per_node = devices_per_node,
                          .seconds_per_byte = 1e-6,
                          .network_slowdown = kSlowdown,
                          .global_batch_size = device_count / depth};
  options.rules = RulesOf({kPipeline, kUnevenStages});
  options.rules.micro_batch_count = 1;
  const PlanningProblem problem = HandMadeProblem(options);
  Plan plan{.device_count = device_count, .global_batch_size = options.global_batch_size};
  const int ranks = device_count / depth;
  for (int stage = 0; stage < depth; ++stage) {
    plan.stages.push_back({.first_rank = stage * ranks,
                           .rank_count = ranks,
                           .layer_runs = {{stage, 1, StrategyOf(1, ranks)}}});
  }
  EXPECT_OK(CheckPlanStructure(problem, plan));
  const Prediction prediction = PredictPlan(problem, *CostModel::Create(problem), plan);
  EXPECT_OK(CheckPlan(problem, plan, prediction));
  std::vector<double> sends;
  for (int stage = 0; stage + 1 < depth; ++stage) {
    sends.push_back(prediction.stages[stage].send.milliseconds());
  }
  return sends;
}

TEST(NodeEdge, MessagesThatLeaveTheNodeTakeAsLongAsTheNetworkDoes) {
  constexpr double kOut = kWithinNode * kSlowdown;
  using testing::DoubleNear;
  using testing::ElementsAre;
  const auto in = DoubleNear(kWithinNode, 1e-9);
  const auto out = DoubleNear(kOut, 1e-9);
  // Two nodes of two, one device a stage: the middle message leaves.
  EXPECT_THAT(SendsOf(4, 2, 4), ElementsAre(in, out, in));
  // Two nodes of four, two devices a stage.
  EXPECT_THAT(SendsOf(8, 4, 4), ElementsAre(in, out, in));
  // A group as large as a node: every message leaves the node.
  EXPECT_THAT(SendsOf(8, 2, 4), ElementsAre(out, out, out));
  // Two nodes of three, two devices a stage: the middle one lies on both, and of each
  // message one of two leaves.
  EXPECT_THAT(SendsOf(6, 3, 3), ElementsAre(out, out));
  // Three nodes of four, three devices a stage.
  EXPECT_THAT(SendsOf(12, 4, 4), ElementsAre(out, out, out));
}

// Groups of four of twelve devices lie within nodes of four and of twelve devices, but not all
// within nodes of six.
TEST(NodeEdge, GroupsThatLieAcrossItExchangeOverTheNetwork) {
  const auto exchange = [](int devices_per_node) {
    const PlanningProblem problem = EstimatedProblem({.device_count = 12,
                                                      .devices_per_node = devices_per_node,
                                                      .decoder_count = 4,
                                                      .hidden_size = 3072,
                                                      .attention_head_count = 24,
                                                      .global_batch_size = 12});
    const CostModel costs = *CostModel::Create(problem);
    return costs.group(kFirstGroup)
        .CostOfLayer(1, StrategyOf(4, 3), 12, 1)
        .time[TimeItemKind::kTensorParallel];
  };
  EXPECT_NEAR(exchange(4) / exchange(12), 1.0, 0.01);
  EXPECT_GT(exchange(6) / exchange(12), 1.5);
}

// A network so slow that it matters which message leaves, against all plans.
TEST(NodeEdge, ExactKnowsWhichMessagesLeave) {
  int deep_count = 0;
  int trial = 0;
  for (const auto& [devices, per_node] :
       {std::pair(4, 2), std::pair(6, 2), std::pair(6, 3), std::pair(8, 2), std::pair(8, 4)}) {
    for (const double slowdown : {1.0, 30.0, 1000.0}) {
      for (const bool blocking : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << devices << " devices, " << per_node << " a node, " << slowdown);
        ++trial;
        HandMadeOptions options{
            .layers = {{.count = 2, .milliseconds = 1.0 + trial % 3, .parameter_count = 2'400'000},
                       {.count = 3, .parameter_count = 2'400'000}},
            .device_count = devices,
            .devices_per_node = per_node,
            .seconds_per_byte = 1e-8,
            .network_slowdown = slowdown,
            .global_batch_size = 8};
        options.rules = RulesOf({kPipeline, kUnevenStages, kTensor, kPerLayer});
        options.rules.runtime.blocking_pipeline_messages = blocking;
        const PlanningProblem problem = HandMadeProblem(options);
        ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
        const BruteForceAnswer twin = EveryStage(problem, costs);
        const std::optional<PlanningResult> result = SearchExact(problem, costs, {});
        ASSERT_TRUE(twin.best.has_value() && result.has_value());
        const auto* const found = std::get_if<PlanFound>(&*result);
        ASSERT_NE(found, nullptr);
        EXPECT_NEAR(found->prediction.step / twin.best->prediction.step, 1.0, 1e-9)
            << PlanGist(found->plan) << " and not " << PlanGist(twin.best->plan);
        EXPECT_LE(found->search.bound.value(), twin.best->prediction.step.value() * (1 + 1e-9));
        if (found->plan.stages.size() > 1) ++deep_count;
      }
    }
  }
  EXPECT_GT(deep_count, trial / 2);
}

}  // namespace
}  // namespace parplan
