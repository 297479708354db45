// The time that `--target megatron` gives away because it searches no empty virtual stages: all
// layouts of small models, empty stages included, beside its answers.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/check/plan_check.h"
#include "planner/check/result_check.h"
#include "planner/cost/predict_plan.h"
#include "planner/find_plan.h"
#include "planner/model/pass_order.h"
#include "tests/support/brute_force_menus.h"
#include "tests/support/brute_force_space.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// More virtual stages than the models of these tests have layers.
constexpr int kMostStages = 8;

struct TwinAnswer {
  Plan plan;
  Seconds step;
};

// The fastest plans with several stages that fit.
struct TwinAnswers {
  // Every stage has a layer.
  std::optional<TwinAnswer> full;
  // Some stage has none.
  std::optional<TwinAnswer> with_empty;
};

// Adds every way to cut `left` layers into `stage_count` stages behind those of `begun`, of which
// the first and the last have a layer.
void CutWithEmptyStages(int left, int stage_count, std::vector<int>& begun,
                        std::vector<std::vector<int>>& layouts) {
  if (stage_count == 0) {
    if (left == 0) layouts.push_back(begun);
    return;
  }
  const int least = begun.empty() || stage_count == 1 ? 1 : 0;
  for (int count = least; count <= left; ++count) {
    begun.push_back(count);
    CutWithEmptyStages(left - count, stage_count - 1, begun, layouts);
    begun.pop_back();
  }
}

// The shapes of pipelines up to `kMostStages`; those of `ShapesOf` have a layer for each stage.
std::vector<PlanShape> PipelineShapes(const PlanningProblem& problem) {
  const int64_t batch = problem.global_batch_size();
  std::vector<PlanShape> shapes;
  for (int depth = 2; depth <= problem.device_count(); ++depth) {
    if (problem.device_count() % depth != 0) continue;
    for (int64_t count = 1; count <= batch; ++count) {
      if (batch % count != 0) continue;
      if (problem.rules().schedule != Schedule::kInterleaved) {
        shapes.push_back({batch, count, depth, Schedule::kOneForwardOneBackward, 1, 0});
      }
      for (int stages = 2; stages * depth <= kMostStages; ++stages) {
        if (count % depth == 0) {
          shapes.push_back({batch, count, depth, Schedule::kInterleaved, stages, 0});
        }
        for (int64_t group = depth + 1; group <= count; ++group) {
          if (!IsGroupSize(group, depth, count)) continue;
          shapes.push_back({batch, count, depth, Schedule::kInterleaved, stages, group});
        }
      }
    }
  }
  return shapes;
}

TwinAnswers EveryLayout(const PlanningProblem& problem, const CostModel& costs) {
  PlanEvaluator evaluator(problem, costs);
  TwinAnswers answers;
  for (const PlanShape& shape : PipelineShapes(problem)) {
    std::vector<std::vector<int>> layouts;
    std::vector<int> begun;
    CutWithEmptyStages(problem.model().layer_count(), shape.stage_count(), begun, layouts);
    for (const LayerMenus& menus : MenusOf(problem, costs, shape)) {
      // A plan of this target has one strategy, so a layer has one choice in each menu.
      std::vector<Strategy> strategies;
      for (const std::vector<Strategy>& menu : menus) {
        if (menu.size() == 1) strategies.push_back(menu.front());
      }
      if (strategies.size() != menus.size()) continue;
      for (const std::vector<int>& layout : layouts) {
        Plan plan = MakePlan(problem, shape, layout, strategies);
        EXPECT_OK(CheckPlanStructure(problem, plan)) << PlanGist(plan);
        const PlanScore score = evaluator.Evaluate(plan);
        if (score.peak_memory_upper > problem.usable_memory()) continue;
        bool has_empty = false;
        for (const int count : layout) has_empty |= count == 0;
        std::optional<TwinAnswer>& best = has_empty ? answers.with_empty : answers.full;
        if (!best || score.step < best->step) best = {std::move(plan), score.step};
      }
    }
  }
  return answers;
}

// Without recomputation: layers of small models fit, and it multiplies the plans.
EstimatedOptions SmallQuestion(int decoder_count, int64_t global_batch_size) {
  EstimatedOptions options{.device_count = 4,
                           .devices_per_node = 1,
                           .decoder_count = decoder_count,
                           .hidden_size = 1024,
                           .attention_head_count = 16,
                           .sequence_length = 512,
                           .vocabulary_size = 2000,
                           .tied_embedding = false,
                           .global_batch_size = global_batch_size};
  options.rules = {.target = Target::kMegatron, .allow_estimates = true};
  options.rules.runtime = *FindRuntime("megatron-core");
  using enum SearchDimension;
  options.rules.dimensions = DimensionSet::All()
                                 .Without(kSelectiveRecompute)
                                 .Without(kFullRecompute)
                                 .Without(kBlockRecompute)
                                 .Without(kModuleRecompute);
  return options;
}

PlanFound AnswerOf(const PlanningProblem& problem) {
  absl::StatusOr<PlanningResult> result = FindPlan(problem, "exact");
  EXPECT_OK(result);
  EXPECT_OK(CheckResult(problem, *result));
  return std::get<PlanFound>(*std::move(result));
}

// If one stage may be the answer too, three of these 48 answers would be faster with empty
// stages, by at most 1 %. That is seen here and proved nowhere.
TEST(MegatronTarget, LosesLittleToEmptyStagesInSmallQuestions) {
  int faster_count = 0;
  for (int trial = 0; trial < 48; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    EstimatedOptions options = SmallQuestion(/*decoder_count=*/2 + trial % 4,
                                             /*global_batch_size=*/trial / 4 % 2 == 0 ? 4 : 6);
    options.device_count = trial % 3 == 0 ? 2 : 4;
    options.devices_per_node = trial / 12 % 2 == 0 ? 1 : options.device_count;
    options.vocabulary_size = trial / 24 == 0 ? 2000 : 64'000;
    options.sequence_length = trial / 8 % 2 == 0 ? 128 : 1024;
    const PlanningProblem problem = EstimatedProblem(options);
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
    const TwinAnswers twin = EveryLayout(problem, costs);
    ASSERT_TRUE(twin.full.has_value() && twin.with_empty.has_value());
    const PlanFound found = AnswerOf(problem);
    EXPECT_EQ(found.search.termination, Termination::kOptimal);
    EXPECT_LE(found.prediction.step / twin.full->step, 1.0 + 1e-9) << PlanGist(twin.full->plan);
    const double ratio = twin.with_empty->step / found.prediction.step;
    if (ratio < 1.0 - 1e-9) ++faster_count;
    EXPECT_GT(ratio, 0.98) << PlanGist(found.plan) << " and not "
                           << PlanGist(twin.with_empty->plan);
  }
  EXPECT_LE(faster_count, 6);
}

// Interleaving on four devices takes eight virtual stages, and the model has seven layers: one
// stage is empty. `OPTIMAL` is about plans with a layer in each stage (docs/targets.md).
TEST(MegatronTarget, LeavesOutEmptyStagesAlsoIfTheyWouldPay) {
  EstimatedOptions options = SmallQuestion(/*decoder_count=*/5, /*global_batch_size=*/4);
  options.rules.schedule = Schedule::kInterleaved;
  const PlanningProblem problem = EstimatedProblem(options);
  ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
  const TwinAnswers twin = EveryLayout(problem, costs);
  ASSERT_TRUE(twin.full.has_value() && twin.with_empty.has_value());
  const PlanFound found = AnswerOf(problem);
  EXPECT_EQ(found.search.termination, Termination::kOptimal);
  EXPECT_NEAR(found.prediction.step / twin.full->step, 1.0, 1e-9);
  EXPECT_LT(twin.with_empty->step / found.prediction.step, 0.95) << PlanGist(twin.with_empty->plan);
  EXPECT_GT(twin.with_empty->step / found.prediction.step, 0.88);
  size_t empty_count = 0;
  for (const StagePlan& stage : twin.with_empty->plan.stages) empty_count += stage.is_empty();
  EXPECT_EQ(empty_count, 1u);
  EXPECT_EQ(twin.with_empty->plan.stages.size(), 8u);
}

}  // namespace
}  // namespace parplan
