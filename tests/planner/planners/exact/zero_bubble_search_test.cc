#include "planner/planners/exact/zero_bubble_search.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <variant>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/check/plan_check.h"
#include "planner/check/result_check.h"
#include "planner/cost/predict_plan.h"
#include "planner/find_plan.h"
#include "planner/planners/exact/exact_search.h"
#include "tests/support/brute_force_plans.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/random_problem.h"
#include "tests/support/status_matchers.h"
#include "tests/support/valid.h"

namespace parplan {
namespace {

using enum SearchDimension;

PlanningRules TorchRules(const PlanningRules& rules) {
  PlanningRules changed = rules;
  changed.target = Target::kFsdp2;
  changed.runtime = *FindRuntime("torch");
  changed.schedule = std::nullopt;
  return changed;
}

// Returns the rules without virtual stages and block recomputation, whose search other tests judge.
PlanningRules PlainTorchRules(const PlanningRules& rules) {
  PlanningRules changed = TorchRules(rules);
  changed.dimensions = rules.dimensions.Without(kInterleaved)
                           .Without(kBlockRecompute)
                           .Without(kContext)
                           .Without(kUlysses)
                           .With(kPipeline)
                           .With(kZeroBubble);
  return changed;
}

// Returns the answer if it is a plan, checked. `has_plans` is whether the space has plans that fit,
// which no answer may deny.
std::optional<PlanFound> Answer(const PlanningProblem& problem, bool has_plans) {
  const CostModel costs = Valid(CostModel::Create(problem));
  std::optional<PlanningResult> result = SearchExact(problem, costs, SearchControl());
  EXPECT_TRUE(result.has_value() || !has_plans);
  if (!result) return std::nullopt;
  EXPECT_OK(CheckResult(problem, *result));
  EXPECT_FALSE(std::holds_alternative<NothingFits>(*result) && has_plans);
  auto* const found = std::get_if<PlanFound>(&*result);
  if (found == nullptr) return std::nullopt;
  return std::move(*found);
}

// With too little memory nothing is found, and nothing says that there is no plan at all.
TEST(SearchZeroBubble, DoesNotDenyPlansOfMoreMemory) {
  EstimatedOptions options;
  options.device_count = 8;
  options.decoder_count = 6;
  options.hidden_size = 1024;
  options.attention_head_count = 16;
  options.global_batch_size = 16;
  options.rules.target = Target::kFsdp2;
  options.rules.runtime = *FindRuntime("torch");
  options.rules.schedule = Schedule::kZeroBubble;
  options.rules.dimensions = DimensionSet::All();
  const PlanningProblem problem = EstimatedProblem(options).WithUsableMemory(Bytes::Of(1 << 20));
  const CostModel costs = Valid(CostModel::Create(problem));
  const std::optional<PlanningResult> result = SearchExact(problem, costs, SearchControl());
  ASSERT_TRUE(result.has_value());
  const auto* const stopped = std::get_if<StoppedEmpty>(&*result);
  ASSERT_NE(stopped, nullptr);
  EXPECT_EQ(stopped->search.limit, SearchLimit::kMethod);
}

// Of small problems every plan is looked at. No answer is slower than the best plan by more than
// its gap, no bound is above the best, `OPTIMAL` is the best, and the dimension makes no answer
// slower. A third of the questions ask for the schedule alone; memory may then leave them without a
// plan, since its search is not complete.
TEST(SearchZeroBubble, AgreesWithEveryPlan) {
  int zero_bubble_won = 0;
  int proved = 0;
  int compared = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem drawn = RandomProblem(seed, {.max_layer_count = 6,
                                                       .max_device_count = 4,
                                                       .max_plan_count = 2e4,
                                                       .memory_binds = false});
    PlanningRules rules = PlainTorchRules(drawn.rules());
    if (seed % 3 == 0) rules.schedule = Schedule::kZeroBubble;
    PlanningProblem problem = drawn.WithRules(rules);
    absl::StatusOr<CostModel> costs = CostModel::Create(problem);
    if (!costs.ok()) continue;
    const BruteForceAnswer plenty = EveryPlan(problem, *costs);
    if (!plenty.best) continue;
    // Half of the problems have memory between that of the smallest plan and that of the best.
    if (seed % 2 == 0) {
      const double least = plenty.smallest_usable_memory.as_double();
      const double most = plenty.best->prediction.peak_memory_upper.as_double();
      problem = problem.WithUsableMemory(Bytes::Ceil(least + 0.5 * (most - least)));
    }
    const BruteForceAnswer every = EveryPlan(problem, *costs);
    if (!every.best) continue;
    const std::optional<PlanFound> found = Answer(problem, /*has_plans=*/true);
    if (!found.has_value()) {
      EXPECT_TRUE(rules.schedule.has_value());
      continue;
    }
    ++compared;
    const auto batch = static_cast<double>(found->plan.global_batch_size);
    const double time = found->prediction.step.value() / batch;
    const double best = every.best->time_per_sample().value();
    EXPECT_GE(time, best * (1.0 - 1e-9));
    EXPECT_LE(found->search.bound.value() / batch, best * (1.0 + 1e-9));
    EXPECT_LE(time * (1.0 - found->search.gap_ratio), best * (1.0 + 1e-9));
    if (found->search.termination == Termination::kOptimal) {
      ++proved;
      EXPECT_LE(time, best * (1.0 + 1e-9));
    }
    if (found->plan.schedule == Schedule::kZeroBubble) ++zero_bubble_won;
    if (rules.schedule.has_value()) continue;
    rules.dimensions = rules.dimensions.Without(kZeroBubble);
    const std::optional<PlanFound> smaller = Answer(problem.WithRules(rules), /*has_plans=*/false);
    if (!smaller.has_value()) continue;
    EXPECT_LE(time, smaller->prediction.step.value() /
                        static_cast<double>(smaller->plan.global_batch_size));
  }
  EXPECT_GE(compared, 20);
  EXPECT_GE(zero_bubble_won, 3);
  EXPECT_GE(proved, 1);
}

PlanningProblem DeepPipeline(const PlanningRules& rules) {
  EstimatedOptions options{.device_count = 16,
                           .decoder_count = 32,
                           .hidden_size = 4096,
                           .attention_head_count = 32,
                           .tied_embedding = false,
                           .global_batch_size = 64,
                           .rules = {.allow_estimates = true}};
  options.rules = TorchRules(options.rules);
  options.rules.schedule = rules.schedule;
  options.rules.dimensions = rules.dimensions;
  options.rules.max_tensor_parallel_degree = 1;
  return EstimatedProblem(options);
}

// A question that asks for the schedule gets it, with its prediction checked; the gap is that of
// the bound.
TEST(SearchZeroBubble, AnswersAQuestionForTheSchedule) {
  PlanningRules rules;
  rules.schedule = Schedule::kZeroBubble;
  rules.dimensions = DimensionSet::All();
  const PlanningProblem problem = DeepPipeline(rules);
  const std::optional<PlanFound> found = Answer(problem, /*has_plans=*/true);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->plan.schedule, Schedule::kZeroBubble);
  EXPECT_GT(found->plan.pipeline_parallel_degree(), 1);
  EXPECT_LT(found->search.gap_ratio, 0.5);
  for (const StagePrediction& stage : found->prediction.stages) {
    EXPECT_GT(stage.backward_weights, Seconds());
    EXPECT_LT(stage.backward_weights, stage.backward);
    EXPECT_EQ(
        stage.in_flight_micro_batch_count,
        std::min<int64_t>(found->plan.pipeline_parallel_degree(), found->plan.micro_batch_count));
  }
  EXPECT_THAT(found->prediction.estimated_items, testing::Contains(kSplitBackwardItem));
  // The same plan under 1F1B takes longer, and the first device needs as much memory.
  Plan whole = found->plan;
  whole.schedule = Schedule::kOneForwardOneBackward;
  const CostModel costs = Valid(CostModel::Create(problem));
  const Prediction of_whole = PredictPlan(problem, costs, whole);
  EXPECT_GT(of_whole.step, found->prediction.step);
}

TEST(SearchZeroBubble, IsRefusedByOtherPlannersAndTargets) {
  PlanningRules rules;
  rules.schedule = Schedule::kZeroBubble;
  rules.dimensions = DimensionSet::All();
  const PlanningProblem problem = DeepPipeline(rules);
  for (const char* planner : {"megatron", "galvatron", "dp+pp"}) {
    const auto answer = FindPlan(problem, planner, SearchControl());
    EXPECT_THAT(answer.status().message(), testing::HasSubstr("zb-h1")) << planner;
  }
}

}  // namespace
}  // namespace parplan
