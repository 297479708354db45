// Runtimes with memory that is in no sum of layers: fp32 copies of gradients in the
// optimizer's step, flat buckets, stage outputs that are kept. The search adds up layers, so
// it meets plans that fit by its sums and not by the prediction.

#include <cstdint>
#include <optional>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/check/plan_check.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/predict_plan.h"
#include "planner/planners/exact/exact_search.h"
#include "tests/support/brute_force_plans.h"
#include "tests/support/random_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

class RefusedPlans : public testing::TestWithParam<const char*> {};

// The fastest plan of all is given a byte, and a thousandth, less than it needs.
TEST_P(RefusedPlans, AnswersFitAndBoundsHold) {
  int refused_count = 0;
  int optimal_count = 0;
  int found_count = 0;
  for (uint64_t seed = 40'000; seed < 40'060; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem random = RandomProblem(seed, {.memory_binds = false});
    PlanningRules rules = random.rules();
    rules.runtime = *FindRuntime(GetParam());
    const PlanningProblem roomy = random.WithRules(rules);
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(roomy));
    const BruteForceAnswer fastest = EveryStage(roomy, costs);
    if (!fastest.best) continue;
    const Bytes needed = fastest.best->prediction.peak_memory_upper;
    // The memory that the same plan needs without anything but its layers.
    rules.runtime.widens_gradients_in_step = false;
    rules.runtime.flatten_gradient_buckets = false;
    rules.runtime.keep_stage_outputs = false;
    const PlanningProblem bare = roomy.WithRules(rules);
    ASSERT_OK_AND_ASSIGN(const CostModel bare_costs, CostModel::Create(bare));
    const Bytes sums = PredictPlan(bare, bare_costs, fastest.best->plan).peak_memory_upper;
    for (const Bytes usable : {needed - Bytes::Of(1), Bytes::Ceil(needed.as_double() * 0.999)}) {
      const PlanningProblem problem = roomy.WithUsableMemory(usable);
      if (sums <= usable) ++refused_count;
      const BruteForceAnswer twin = EveryStage(problem, costs);
      const std::optional<PlanningResult> result = SearchExact(problem, costs, {});
      ASSERT_TRUE(result.has_value());
      const auto* const found = std::get_if<PlanFound>(&*result);
      // No claim that nothing fits where something does.
      if (found == nullptr) {
        const auto* const nothing = std::get_if<NothingFits>(&*result);
        ASSERT_NE(nothing, nullptr);
        if (twin.best) {
          EXPECT_FALSE(nothing->memory_is_proved);
          EXPECT_EQ(nothing->search.termination, Termination::kFeasible);
        }
        continue;
      }
      ASSERT_TRUE(twin.best.has_value());
      ++found_count;
      EXPECT_OK(CheckPlan(problem, found->plan, found->prediction));
      EXPECT_LE(found->prediction.peak_memory_upper, usable);
      const double best = TimePerSample(twin.best->plan, twin.best->prediction).value();
      const double ours = TimePerSample(found->plan, found->prediction).value();
      const auto batch = static_cast<double>(found->plan.global_batch_size);
      EXPECT_GE(ours, best * (1 - 1e-9));
      EXPECT_LE(found->search.bound.value() / batch, best * (1 + 1e-9));
      if (found->search.termination == Termination::kOptimal) {
        ++optimal_count;
        EXPECT_LE(ours, best * (1 + 1e-9));
      } else {
        // A plan that is not proved optimal is within its gap.
        EXPECT_LE(ours * (1 - found->search.gap_ratio), best * (1 + 1e-9));
      }
    }
  }
  RecordProperty("refused", refused_count);
  EXPECT_GT(refused_count, 10);
  EXPECT_GT(found_count, 40);
  EXPECT_GT(optimal_count, found_count / 2);
}

INSTANTIATE_TEST_SUITE_P(Runtimes, RefusedPlans,
                         testing::Values("megatron-2021", "megatron-2022", "megatron-deepspeed"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& letter : name) {
                             if (letter == '-') letter = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace parplan
