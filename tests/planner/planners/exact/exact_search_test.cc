#include "planner/planners/exact/exact_search.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/check/plan_check.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/predict_plan.h"
#include "planner/planners/exact/exact_candidates.h"
#include "planner/planners/exact/pipeline/plan_assembly.h"
#include "planner/search/base/search_meter.h"
#include "tests/support/brute_force_plans.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/random_problem.h"
#include "tests/support/status_matchers.h"
#include "tests/support/synthetic_problem.h"

namespace parplan {
namespace {

double PerSample(const PredictedPlan& plan) {
  return plan.prediction.step.value() / static_cast<double>(plan.plan.global_batch_size);
}

const PlanFound* FoundIn(const std::optional<PlanningResult>& result) {
  return result.has_value() ? std::get_if<PlanFound>(&*result) : nullptr;
}

// Whether the bound has all of what the runtime does, so that a small problem is always proved.
// With others a small gap may be left (docs/search.md).
bool HasWholeBound(const RuntimeTraits& runtime) {
  return !runtime.blocking_pipeline_messages && !runtime.keeps_placeholder_gradients &&
         runtime.free_block_share == 0.0;
}

// Against all plans, in portions of seeds that test runners can share out.
class SearchExactTwin : public testing::TestWithParam<uint64_t> {};

TEST_P(SearchExactTwin, IsTheBestOfAllPlans) {
  int found_count = 0;
  constexpr int kTrials = 15;
  for (uint64_t seed = 4'000 + GetParam(); seed < 4'000 + GetParam() + kTrials; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const PlanningProblem problem = RandomProblem(seed);
    const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
    ASSERT_TRUE(costs.ok()) << costs.status();
    const BruteForceAnswer answer = EveryStage(problem, *costs);
    const std::optional<PlanningResult> result = SearchExact(problem, *costs, {});
    const PlanFound* found = FoundIn(result);
    ASSERT_EQ(found != nullptr, answer.best.has_value());
    if (found == nullptr) continue;
    ++found_count;
    const double best = PerSample(*answer.best);
    const double ours =
        found->prediction.step.value() / static_cast<double>(found->plan.global_batch_size);
    EXPECT_TRUE(CheckPlan(problem, *costs, found->plan, found->prediction).ok());
    EXPECT_GE(ours, best * (1.0 - 1e-9));
    const double bound =
        found->search.bound.value() / static_cast<double>(found->plan.global_batch_size);
    EXPECT_LE(bound, best * (1.0 + 1e-9));
    if (found->search.termination == Termination::kOptimal) {
      EXPECT_LE(ours, best * (1.0 + 1e-9));
    } else {
      EXPECT_FALSE(HasWholeBound(problem.rules().runtime));
    }
  }
  EXPECT_GE(found_count, kTrials / 2);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SearchExactTwin, testing::Range<uint64_t>(0, 120, 15));

TEST(SearchExact, MoreMemoryIsNeverSlower) {
  for (uint64_t seed = 6'000; seed < 6'030; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const PlanningProblem problem = RandomProblem(seed);
    const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
    ASSERT_TRUE(costs.ok()) << costs.status();
    double before = std::numeric_limits<double>::infinity();
    for (const int percent : {60, 80, 90, 100, 120, 200}) {
      const PlanningProblem other =
          problem.WithUsableMemory(Bytes::Of(problem.usable_memory().count() / 100 * percent));
      const std::optional<PlanningResult> result = SearchExact(other, *costs, {});
      const PlanFound* found = FoundIn(result);
      EXPECT_TRUE(found != nullptr || before == std::numeric_limits<double>::infinity());
      if (found == nullptr) continue;
      const double time = PerSample({found->plan, found->prediction});
      EXPECT_LE(time, before * (1.0 + 1e-9)) << percent << " % of the memory";
      before = time;
    }
  }
}

// The search stops at the n-th question, whatever n.
TEST(SearchExact, GivesTheBestSoFarWhereItIsStopped) {
  const PlanningProblem problem = SyntheticProblem();
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  ASSERT_TRUE(costs.ok()) << costs.status();
  const std::optional<PlanningResult> whole = SearchExact(problem, *costs, {});
  const PlanFound* best = FoundIn(whole);
  ASSERT_NE(best, nullptr);
  int found_count = 0;
  for (int questions = 0; questions < 60; ++questions) {
    int asked = 0;
    const SearchControl control = {.should_stop = [&] { return asked++ >= questions; }};
    const std::optional<PlanningResult> result = SearchExact(problem, *costs, control);
    ASSERT_TRUE(result.has_value());
    ASSERT_FALSE(std::holds_alternative<NothingFits>(*result)) << questions;
    const PlanFound* found = FoundIn(result);
    if (found == nullptr) continue;
    ++found_count;
    EXPECT_GE(found->prediction.step, best->prediction.step * (1.0 - 1e-9));
    EXPECT_LE(found->search.bound, best->prediction.step * (1.0 + 1e-9));
    if (found->search.termination == Termination::kFeasible) {
      EXPECT_EQ(found->search.limit, SearchLimit::kTime);
    }
  }
  EXPECT_GT(found_count, 0);
}

// Rounds with more effort, to the end and to gaps on the way.
TEST(SearchExact, MoreEffortNeverMakesPlanOrBoundWorse) {
  int open_count = 0;
  int better_count = 0;
  for (uint64_t seed = 7'000; seed < 7'060; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    SyntheticOptions options = RandomSyntheticOptions(seed);
    options.device_count = 8;
    options.decoder_count = 8;
    const PlanningProblem problem = SyntheticProblem(options);
    const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
    ASSERT_TRUE(costs.ok()) << costs.status();
    const std::optional<PlanningResult> once = SearchExact(problem, *costs, {});
    const PlanFound* const first = FoundIn(once);
    if (first == nullptr) continue;
    const bool is_open = first->search.termination == Termination::kFeasible;
    open_count += is_open;
    // The last round ends whatever it has not proved.
    SearchControl control{.effort = 1, .wanted_gap_ratio = 0.0};
    int questions = 0;
    control.should_stop = [&] { return ++questions > 20'000; };
    const std::optional<PlanningResult> deep = SearchExact(problem, *costs, control);
    const PlanFound* const found = FoundIn(deep);
    ASSERT_NE(found, nullptr);
    EXPECT_TRUE(CheckPlan(problem, *costs, found->plan, found->prediction).ok());
    EXPECT_LE(found->prediction.step, first->prediction.step);
    EXPECT_GE(found->search.bound, first->search.bound * (1.0 - 1e-12));
    EXPECT_LE(found->search.gap_ratio, first->search.gap_ratio + 1e-12);
    better_count += is_open && found->search.gap_ratio < first->search.gap_ratio;
    for (const double gap : {0.5, 0.05, 0.01}) {
      control.wanted_gap_ratio = gap;
      questions = 0;
      const std::optional<PlanningResult> quick = SearchExact(problem, *costs, control);
      const PlanFound* const near = FoundIn(quick);
      ASSERT_NE(near, nullptr);
      EXPECT_LE(near->search.bound, found->prediction.step * (1.0 + 1e-9));
      if (near->search.termination == Termination::kOptimal) continue;
      if (near->search.limit == SearchLimit::kGap) {
        EXPECT_LE(near->search.gap_ratio, gap);
      } else {
        EXPECT_GT(near->search.gap_ratio, gap);
      }
    }
  }
  std::printf("%d open after one round, %d of them closer after more\n", open_count, better_count);
}

// Before each table it is asked whether to go on; those made until then stay.
TEST(TableCache, MakesNoMoreTablesOnceItIsStopped) {
  const PlanningProblem problem = SyntheticProblem();
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  ASSERT_TRUE(costs.ok()) << costs.status();
  const StrategySpace space(problem, *costs);
  const std::vector<TableCache::Key> keys = {{1, 8}, {2, 8}, {2, 16}};
  TableCache tables;
  int asked = 0;
  EXPECT_FALSE(
      tables.Prepare(space, *costs, keys, {.should_stop = [&asked] { return ++asked > 12; }}));
  // A table asks before it is made, and before each of three passes over its three definitions.
  EXPECT_EQ(asked, 13);
  EXPECT_TRUE(tables.has(keys[0]));
  EXPECT_FALSE(tables.has(keys[1]));
  asked = 0;
  EXPECT_TRUE(tables.Prepare(space, *costs, keys, {.should_stop = [&asked] {
                               ++asked;
                               return false;
                             }}));
  EXPECT_EQ(asked, 20);
  for (const TableCache::Key& key : keys) {
    EXPECT_EQ(tables.At(key).micro_batch_size(), key.second);
  }
}

// Who watches a search of one candidate that takes long sees it go on. No smaller spaces: the
// states of what they share with the whole are counted at once.
TEST(SearchExact, ReportsWithinALongSearch) {
  PlanningRules rules = {.dimensions = DimensionSet::All()
                                           .Without(SearchDimension::kInterleaved)
                                           .Without(SearchDimension::kGroupSize)
                                           .Without(SearchDimension::kUnevenStages),
                         .allow_estimates = true};
  rules.micro_batch_count = 64;
  rules.max_pipeline_parallel_degree = 1;
  const PlanningProblem problem = EstimatedProblem({.device_count = 8,
                                                    .decoder_count = 32,
                                                    .hidden_size = 4096,
                                                    .attention_head_count = 32,
                                                    .global_batch_size = 64,
                                                    .rules = rules})
                                      .WithUsableMemory(Bytes::Of(int64_t{24} << 30));
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  ASSERT_TRUE(costs.ok()) << costs.status();
  std::vector<SearchProgress> reports;
  const SearchControl control = {
      .on_progress = [&](const SearchProgress& progress) { reports.push_back(progress); }};
  ASSERT_TRUE(SearchExact(problem, *costs, control).has_value());
  int64_t before = 0;
  int within_count = 0;
  for (const SearchProgress& report : reports) {
    EXPECT_EQ(report.total_candidate_count, 1);
    EXPECT_GE(report.expanded_state_count, before);
    // The states of a part of the search are counted when it ends.
    EXPECT_LE(report.expanded_state_count, before + 65'536);
    before = report.expanded_state_count;
    if (report.done_candidate_count == 0 && before > 10'000) ++within_count;
  }
  EXPECT_GE(within_count, 2) << before << " states, " << reports.size() << " reports";
}

TEST(SearchExact, ObeysTheLimitOfStates) {
  const PlanningProblem problem = SyntheticProblem();
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  ASSERT_TRUE(costs.ok()) << costs.status();
  const std::optional<PlanningResult> result = SearchExact(problem, *costs, {.max_state_count = 1});
  ASSERT_TRUE(result.has_value());
  // The plan that is there at once.
  const auto* found = std::get_if<PlanFound>(&*result);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->search.limit, SearchLimit::kStates);
  EXPECT_OK(CheckPlan(problem, found->plan, found->prediction));
}

TEST(SearchExact, TakesTheScheduleOfTheRules) {
  for (const Schedule schedule : {Schedule::kOneForwardOneBackward, Schedule::kGpipe}) {
    SyntheticOptions options;
    options.rules.schedule = schedule;
    const PlanningProblem problem = SyntheticProblem(options);
    const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
    ASSERT_TRUE(costs.ok()) << costs.status();
    const std::optional<PlanningResult> result = SearchExact(problem, *costs, {});
    const PlanFound* found = FoundIn(result);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->plan.schedule, schedule);
  }
}

TEST(SearchExact, AlternativesAreInOrderAndDistinct) {
  SyntheticOptions options;
  options.rules.top_plan_count = 6;
  const PlanningProblem problem = SyntheticProblem(options);
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  ASSERT_TRUE(costs.ok()) << costs.status();
  const std::optional<PlanningResult> result = SearchExact(problem, *costs, {});
  const PlanFound* found = FoundIn(result);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->search.termination, Termination::kOptimal);
  std::vector<PredictedPlan> plans = {{found->plan, found->prediction}};
  plans.insert(plans.end(), found->alternatives.begin(), found->alternatives.end());
  ASSERT_EQ(plans.size(), 6u);
  for (size_t i = 0; i < plans.size(); ++i) {
    EXPECT_TRUE(CheckPlan(problem, *costs, plans[i].plan, plans[i].prediction).ok());
    for (size_t j = i + 1; j < plans.size(); ++j) {
      EXPECT_TRUE(IsBetterPlan(plans[i], plans[j])) << i << " and " << j;
      EXPECT_FALSE(AreAlike(plans[i].plan, plans[j].plan)) << i << " and " << j;
    }
  }
}

TEST(SearchExact, MemoryFrontIsThatOfAllPlans) {
  int point_count = 0;
  for (uint64_t seed = 7'000; seed < 7'020; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const PlanningProblem plain = RandomProblem(seed);
    PlanningRules rules = plain.rules();
    rules.wants_memory_front = true;
    const PlanningProblem problem = plain.WithRules(rules);
    const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
    ASSERT_TRUE(costs.ok()) << costs.status();
    const std::optional<PlanningResult> result = SearchExact(problem, *costs, {});
    const PlanFound* found = FoundIn(result);
    if (found == nullptr) continue;
    const std::vector<PredictedPlan>& front = found->memory_front;
    ASSERT_FALSE(front.empty());
    EXPECT_NEAR(PerSample(front.front()), PerSample({found->plan, found->prediction}),
                1e-9 * PerSample(front.front()));
    for (size_t i = 0; i + 1 < front.size(); ++i) {
      EXPECT_LT(PerSample(front[i]), PerSample(front[i + 1]));
      EXPECT_LE(front[i + 1].prediction.peak_memory_upper.as_double(),
                0.99 * front[i].prediction.peak_memory_upper.as_double());
    }
    point_count += static_cast<int>(front.size());
  }
  EXPECT_GT(point_count, 20);
}

TEST(SearchExact, SeedsPassTheCheckAndAreNotFaster) {
  int seed_count = 0;
  for (uint64_t seed = 8'000; seed < 8'060; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const PlanningProblem problem = RandomProblem(seed);
    const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
    ASSERT_TRUE(costs.ok()) << costs.status();
    const SearchControl control;
    SearchMeter meter(control);
    const std::vector<PredictedPlan> seeds = SeedPlans(problem, *costs, control, meter);
    const std::optional<PlanningResult> result = SearchExact(problem, *costs, control);
    const PlanFound* found = FoundIn(result);
    if (!seeds.empty()) {
      ASSERT_NE(found, nullptr);
    }
    for (const PredictedPlan& plan : seeds) {
      EXPECT_TRUE(plan.prediction.fits());
      EXPECT_TRUE(CheckPlan(problem, *costs, plan.plan, plan.prediction).ok());
      EXPECT_TRUE(problem.AllowsGlobalBatchSize(plan.plan.global_batch_size));
      if (found->search.termination == Termination::kOptimal) {
        EXPECT_GE(PerSample(plan), PerSample({found->plan, found->prediction}) * (1.0 - 1e-9));
      }
    }
    seed_count += static_cast<int>(seeds.size());
  }
  EXPECT_GT(seed_count, 20);
}

TEST(SearchExact, SaysWhatWouldDoWhereNothingFits) {
  const PlanningProblem problem = SyntheticProblem();
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  ASSERT_TRUE(costs.ok()) << costs.status();
  const PlanningProblem tiny = problem.WithUsableMemory(Bytes::Of(int64_t{1} << 28));
  const std::optional<PlanningResult> result = SearchExact(tiny, *costs, {});
  ASSERT_TRUE(result.has_value());
  const auto* nothing = std::get_if<NothingFits>(&*result);
  ASSERT_NE(nothing, nullptr);
  EXPECT_TRUE(nothing->memory_is_proved);
  const Bytes smallest = nothing->smallest_usable_memory;
  const std::optional<PlanningResult> with =
      SearchExact(problem.WithUsableMemory(smallest), *costs, {});
  EXPECT_NE(FoundIn(with), nullptr);
  const std::optional<PlanningResult> without =
      SearchExact(problem.WithUsableMemory(smallest - Bytes::Of(1)), *costs, {});
  ASSERT_TRUE(without.has_value());
  EXPECT_TRUE(std::holds_alternative<NothingFits>(*without));
}

}  // namespace
}  // namespace parplan
