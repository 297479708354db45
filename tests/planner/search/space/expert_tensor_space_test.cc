// Tensor-parallel degrees that experts have by themselves: the strategies that are searched, their
// twin, and what is refused.

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/check/plan_check.h"
#include "planner/check/result_check.h"
#include "planner/find_plan.h"
#include "planner/search/space/strategy_space.h"
#include "tests/support/brute_force_plans.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

EstimatedOptions WithExperts(Target target, int device_count) {
  EstimatedOptions options{.device_count = device_count,
                           .devices_per_node = device_count,
                           .decoder_count = 2,
                           .hidden_size = 1024,
                           .attention_head_count = 16,
                           .sequence_length = 1024,
                           .tied_embedding = false,
                           .expert_count = 4,
                           .global_batch_size = 4};
  options.rules = {.target = target, .allow_estimates = true};
  options.rules.runtime = *FindRuntime(LimitsOf(target).runtime_id);
  options.rules.dimensions = DimensionSet::All()
                                 .Without(SearchDimension::kModuleRecompute)
                                 .Without(SearchDimension::kContext)
                                 .Without(SearchDimension::kUlysses);
  return options;
}

// Returns tensor, expert tensor and expert degree of each strategy of a decoder in one stage.
std::set<std::vector<int>> DegreesOf(const EstimatedOptions& options, int definition = 1) {
  const PlanningProblem problem = EstimatedProblem(options);
  const CostModel costs = *CostModel::Create(problem);
  std::set<std::vector<int>> found;
  for (const Strategy& each :
       StrategySpace(problem, costs).Strategies(definition, 1, options.global_batch_size)) {
    found.insert({each.tensor_parallel_degree, each.expert_tensor_parallel_degree,
                  each.expert_parallel_degree});
  }
  return found;
}

TEST(MegatronTarget, HasWholeExpertsBesideTensorParallelism) {
  for (const Target target : {Target::kMegatron, Target::kParplan}) {
    EstimatedOptions options = WithExperts(target, 4);
    EXPECT_THAT(
        DegreesOf(options),
        UnorderedElementsAre(std::vector{1, 0, 1}, std::vector{1, 0, 2}, std::vector{1, 0, 4},
                             std::vector{2, 0, 1}, std::vector{2, 0, 2}, std::vector{2, 1, 1},
                             std::vector{2, 1, 2}, std::vector{2, 1, 4}, std::vector{4, 0, 1},
                             std::vector{4, 1, 1}, std::vector{4, 1, 2}, std::vector{4, 1, 4}));
    for (const std::vector<int>& each : DegreesOf(options, /*definition=*/0)) {
      EXPECT_EQ(each[1], 0);
    }
    options.rules.dimensions = options.rules.dimensions.Without(SearchDimension::kExpertTensor);
    for (const std::vector<int>& each : DegreesOf(options)) EXPECT_EQ(each[1], 0);
    // Dense layers, and those without sequence parallelism, have none.
    options = WithExperts(target, 4);
    options.rules.runtime.sequence_parallel = false;
    for (const std::vector<int>& each : DegreesOf(options)) EXPECT_EQ(each[1], 0);
    options = WithExperts(target, 4);
    options.expert_count = 0;
    for (const std::vector<int>& each : DegreesOf(options)) EXPECT_EQ(each[1], 0);
  }
}

// Of all plans the best is found and proved.
TEST(MegatronTarget, AnswersAsBruteForceWithExpertTensorDegrees) {
  int folded_count = 0;
  for (const Target target : {Target::kMegatron, Target::kParplan}) {
    for (const double link_speed : {0.1, 1.0}) {
      EstimatedOptions options = WithExperts(target, 4);
      options.link_speed = link_speed;
      options.rules.micro_batch_count = 2;
      options.rules.schedule = Schedule::kOneForwardOneBackward;
      options.rules.dimensions = options.rules.dimensions.Without(SearchDimension::kRankOrder)
                                     .Without(SearchDimension::kGradientSharding)
                                     .Without(SearchDimension::kPerLayer)
                                     .Without(SearchDimension::kEndStrategies);
      const PlanningProblem roomy = EstimatedProblem(options);
      ASSERT_OK_AND_ASSIGN(const PlanningResult best, FindPlan(roomy, "exact"));
      const double most = std::get<PlanFound>(best).prediction.peak_memory_upper.as_double();
      for (const double share : {0.5, 0.7, 0.85, 1.0}) {
        SCOPED_TRACE(testing::Message() << LimitsOf(target).name << ", links " << link_speed << ", "
                                        << share << " of the memory");
        const PlanningProblem problem = roomy.WithUsableMemory(Bytes::Ceil(most * share));
        ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
        const BruteForceAnswer twin = EveryPlan(problem, costs);
        ASSERT_OK_AND_ASSIGN(const PlanningResult result, FindPlan(problem, "exact"));
        ASSERT_EQ(std::holds_alternative<PlanFound>(result), twin.best.has_value());
        if (!twin.best.has_value()) continue;
        EXPECT_OK(CheckResult(problem, result));
        const auto& found = std::get<PlanFound>(result);
        EXPECT_NEAR(found.prediction.step / twin.best->prediction.step, 1.0, 1e-9)
            << PlanGist(found.plan) << " and not " << PlanGist(twin.best->plan);
        for (const StageLayerRun& run : twin.best->plan.stages[0].layer_runs) {
          if (run.strategy.expert_tensor_parallel_degree > 0) ++folded_count;
        }
      }
    }
  }
  EXPECT_GT(folded_count, 0);
}

TEST(CheckPlanStructure, WantsExpertTensorDegreesThatDivide) {
  const PlanningProblem problem = EstimatedProblem(WithExperts(Target::kMegatron, 4));
  const auto check = [&problem](int expert_tensor, int expert,
                                const std::function<void(Strategy&)>& change = nullptr) {
    Strategy strategy{.tensor_parallel_degree = 4};
    strategy.sequence_parallel = true;
    Plan plan = PlanOf(problem, UniformPlan{.strategy = strategy});
    Strategy& experts = plan.stages[0].layer_runs[1].strategy;
    experts.expert_tensor_parallel_degree = expert_tensor;
    experts.expert_parallel_degree = expert;
    if (change) change(experts);
    return CheckPlanStructure(problem, plan);
  };
  const auto refused = [](const std::string& fact) {
    return StatusIs(absl::StatusCode::kInternal, HasSubstr(fact));
  };
  EXPECT_OK(check(0, 1));
  EXPECT_OK(check(1, 4));
  EXPECT_OK(check(2, 2));
  EXPECT_THAT(check(4, 1), refused("is its tensor_parallel_degree"));
  EXPECT_THAT(check(3, 1), refused("does not divide"));
  EXPECT_THAT(check(2, 4),
              refused("which does not divide its ranks over the expert tensor degree"));
  EXPECT_THAT(check(0, 4), refused("data- and context-parallel ranks"));
  EXPECT_THAT(check(1, 1, [](Strategy& s) { s.sequence_parallel = false; }),
              refused("without sequence parallelism"));
  Plan dense = PlanOf(problem, UniformPlan{.strategy = {.data_parallel_degree = 4}});
  dense.stages[0].layer_runs[0].strategy.expert_tensor_parallel_degree = 2;
  EXPECT_THAT(CheckPlanStructure(problem, dense), refused("and no experts"));
}

}  // namespace
}  // namespace parplan
