// Bounds of interleaved plans with uneven virtual stages, attacked by all plans of small problems
// and by the best plans known of larger ones.

#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "planner/check/plan_check.h"
#include "planner/cost/cost_model.h"
#include "planner/planners/exact/exact_search.h"
#include "planner/planners/exact/interleaved/interleaved_partitions.h"
#include "planner/search/space/strategy_space.h"
#include "tests/support/brute_force_plans.h"
#include "tests/support/brute_force_space.h"
#include "tests/support/large_problem.h"
#include "tests/support/random_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// Returns whether the space has partitions that are bounded together because they are too many.
bool HasUnlisted(const PlanningProblem& problem, const CostModel& costs) {
  const StrategySpace space(problem, costs);
  for (const int degree : space.PipelineDegrees()) {
    if (!InterleavedPartitionsOf(space, degree).unlisted.empty()) return true;
  }
  return false;
}

// Returns a problem of interleaved plans alone.
PlanningProblem Interleaved(const PlanningProblem& any) {
  PlanningRules rules = any.rules();
  rules.schedule = Schedule::kInterleaved;
  rules.target = Target::kParplan;
  return any.WithRules(rules);
}

// Returns the least time a sample of the plans that fit into `memory`, of `front` as
// `BruteForceAnswer` has it.
std::optional<Seconds> FastestWithin(Bytes memory,
                                     const std::vector<std::pair<Seconds, Bytes>>& front) {
  for (const auto& [time, needed] : front) {
    if (needed <= memory) return time;
  }
  return std::nullopt;
}

// Problems of one test, each with unlisted partitions.
constexpr int kProblemsEach = 50;
constexpr double kMaxPlanCount = 10'000.0;

class UnevenTwin : public testing::TestWithParam<uint64_t> {};

TEST_P(UnevenTwin, BoundsNoPlanOutOfTheSpace) {
  int problem_count = 0;
  int memory_count = 0;
  for (uint64_t seed = GetParam(); problem_count < kProblemsEach; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem any = RandomProblem(seed, {.max_layer_count = 12,
                                                     .max_plan_count = kMaxPlanCount,
                                                     .max_strategy_count = 6,
                                                     .memory_binds = false});
    if (!any.dimensions().has(SearchDimension::kInterleaved)) continue;
    const PlanningProblem roomy = Interleaved(any);
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(roomy));
    if (!HasUnlisted(roomy, costs)) continue;
    // The rules of interleaved plans alone may allow many more plans than `any` has; the few
    // problems with more take nearly all the time.
    if (PlanCount(roomy, costs) > kMaxPlanCount) continue;
    // Whether a plan fits changes neither its time nor its memory, so that one look at all plans
    // gives the best within every memory.
    const BruteForceAnswer all = EveryPlan(roomy, costs);
    if (!all.best.has_value()) continue;
    ++problem_count;
    const double least = all.smallest_usable_memory.as_double();
    for (const double factor : {1.0, 1.02, 1.1, 1.5, 100.0}) {
      SCOPED_TRACE(testing::Message() << factor << " of the least memory");
      const PlanningProblem problem = roomy.WithUsableMemory(Bytes::Ceil(least * factor));
      const std::optional<Seconds> fastest = FastestWithin(problem.usable_memory(), all.front);
      ASSERT_TRUE(fastest.has_value());
      const double best = fastest->value();
      const std::optional<PlanningResult> result = SearchExact(problem, costs, {});
      ASSERT_TRUE(result.has_value());
      const auto* const found = std::get_if<PlanFound>(&*result);
      // The plan with the least memory may be left unfound, but not denied.
      if (found == nullptr) {
        const auto* const nothing = std::get_if<NothingFits>(&*result);
        EXPECT_FALSE(nothing != nullptr && nothing->memory_is_proved);
        const SearchSummary& search = std::visit(
            [](const auto& each) -> const SearchSummary& { return each.search; }, *result);
        EXPECT_EQ(search.termination, Termination::kFeasible);
        continue;
      }
      ++memory_count;
      EXPECT_OK(CheckPlan(problem, found->plan, found->prediction));
      const auto batch = static_cast<double>(found->plan.global_batch_size);
      EXPECT_LE(found->search.bound.value() / batch, best * (1.0 + 1e-9));
      EXPECT_GE(found->prediction.step.value() / batch, best * (1.0 - 1e-9));
      if (found->search.termination == Termination::kOptimal) {
        EXPECT_LE(found->prediction.step.value() / batch, best * (1.0 + 1e-9));
      }
    }
  }
  EXPECT_GT(memory_count, 4 * kProblemsEach);
}

INSTANTIATE_TEST_SUITE_P(Seeds, UnevenTwin,
                         testing::Range(uint64_t{20'000}, uint64_t{180'000}, uint64_t{10'000}));

// The plan found with less memory fits into more, so no bound of more exceeds its time. Memory is
// also that which the plan just needs, where a bound that counts a byte too many denies it. A bound
// must hold after any number of states; without the limit two of these problems take up to 1.8
// million, and the test four minutes.
TEST(UnevenLadder, NoBoundExceedsAPlanOfLessMemory) {
  int question_count = 0;
  int open_count = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    LargeOptions options =
        RandomLargeOptions(seed, /*max_layer_count=*/32, /*max_device_count=*/32);
    options.rules.dimensions = options.rules.dimensions.Without(SearchDimension::kModuleRecompute);
    if (seed % 3 == 0) {
      options.rules.dimensions = options.rules.dimensions.Without(SearchDimension::kPerLayer);
    }
    const PlanningProblem roomy = Interleaved(LargeProblem(options));
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(roomy));
    if (!HasUnlisted(roomy, costs)) continue;
    // From more memory to less.
    std::vector<PlanFound> answers;
    PlanningProblem problem = roomy;
    for (int rung = 0; rung < 5; ++rung) {
      const std::optional<PlanningResult> result =
          SearchExact(problem, costs, {.max_state_count = 20'000});
      ASSERT_TRUE(result.has_value());
      const auto* const found = std::get_if<PlanFound>(&*result);
      if (found == nullptr) break;
      EXPECT_OK(CheckPlan(problem, found->plan, found->prediction));
      answers.push_back(*found);
      const double peak = found->prediction.peak_memory_upper.as_double();
      problem = roomy.WithUsableMemory(Bytes::Ceil(rung % 2 == 0 ? peak : 0.9 * peak));
      ++question_count;
      open_count += found->search.gap_ratio > 0.0 ? 1 : 0;
    }
    for (size_t more = 0; more < answers.size(); ++more) {
      for (size_t less = more; less < answers.size(); ++less) {
        const auto per_sample = [](Seconds time, const Plan& plan) {
          return time.value() / static_cast<double>(plan.global_batch_size);
        };
        EXPECT_LE(per_sample(answers[more].search.bound, answers[more].plan),
                  per_sample(answers[less].prediction.step, answers[less].plan) * (1.0 + 1e-9));
      }
      if (more + 1 < answers.size() && more % 2 == 0) {
        // The next question has the peak of this plan as its memory.
        EXPECT_LE(answers[more + 1].search.bound.value(),
                  answers[more].prediction.step.value() * (1.0 + 1e-9));
      }
    }
  }
  EXPECT_GT(question_count, 12);
  EXPECT_GT(open_count, 3);
}

}  // namespace
}  // namespace parplan
