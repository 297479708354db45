#include "planner/planners/exact/interleaved/interleaved_search.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/check/plan_check.h"
#include "planner/cost/pipeline_schedule.h"
#include "planner/planners/exact/interleaved/interleaved_partitions.h"
#include "planner/planners/exact/interleaved/interleaved_paths.h"
#include "tests/support/brute_force_plans.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/random_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The best interleaved plan of all candidates of a problem, and the least of their bounds.
struct BestOfAll {
  std::optional<PredictedPlan> plan;
  double bound = Seconds::Infinite().value();
};

BestOfAll SearchAll(const PlanningProblem& problem, const CostModel& costs) {
  const SearchControl control;
  SearchMeter meter(control);
  const StrategySpace space(problem, costs);
  BestOfAll best;
  for (int64_t batch : problem.GlobalBatchSizes()) {
    for (int depth : space.PipelineDegrees()) {
      for (int64_t count : space.MicroBatchCounts(batch)) {
        if (depth == 1 || count % depth != 0) continue;
        const PipelineCandidate candidate{batch, count, depth, Schedule::kInterleaved};
        const LeastTimes least = LeastTimesOf(problem, costs, space, depth, batch / count);
        if (!least.usable) continue;
        const OptionTable table(problem, costs, space, depth, batch / count);
        if (!table.usable()) continue;
        const PipelineOutcome outcome =
            SearchInterleaved(space, costs, table, candidate, Seconds::Infinite(), 1, meter);
        EXPECT_TRUE(outcome.is_exact);
        if (outcome.plans.empty()) continue;
        const PredictedPlan& plan = outcome.plans.front();
        EXPECT_OK(CheckPlan(problem, plan.plan, plan.prediction));
        EXPECT_TRUE(plan.prediction.fits());
        const double step = plan.prediction.step.value() * (1.0 + 1e-9);
        EXPECT_LE(InterleavedBounds(space, depth).Bound(least, count).value(), step);
        EXPECT_LE(
            InterleavedMemoryBound(space, costs, table, candidate, Seconds::Infinite(), meter),
            Seconds::Of(step));
        if (!best.plan || IsBetterPlan(plan, *best.plan)) best.plan = plan;
      }
    }
  }
  return best;
}

TEST(InterleavedSearch, IsAsFastAsTheBestOfAllInterleavedPlans) {
  int found = 0;
  int compared = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem any = RandomProblem(seed);
    PlanningRules rules = any.rules();
    if (!any.dimensions().has(SearchDimension::kInterleaved)) continue;
    rules.schedule = Schedule::kInterleaved;
    const PlanningProblem problem = any.WithRules(rules);
    const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
    if (!costs.ok()) continue;
    const BruteForceAnswer all = EveryStage(problem, *costs);
    const BestOfAll ours = SearchAll(problem, *costs);
    ASSERT_EQ(ours.plan.has_value(), all.best.has_value());
    if (!all.best) continue;
    ++found;
    const auto time = [](const PredictedPlan& plan) {
      return plan.prediction.step.value() / static_cast<double>(plan.plan.global_batch_size);
    };
    EXPECT_GE(time(*ours.plan), time(*all.best) * (1.0 - 1e-9));
    // The allocator's reserve is in no sum over layers, so a faster plan may stay unfound there.
    const RuntimeTraits& runtime = problem.rules().runtime;
    const bool sums_are_whole = !runtime.widens_gradients_in_step &&
                                !runtime.flatten_gradient_buckets && !runtime.keep_stage_outputs;
    if (!sums_are_whole && time(*ours.plan) > time(*all.best)) continue;
    ++compared;
    EXPECT_NEAR(time(*ours.plan), time(*all.best), 1e-9 * time(*all.best))
        << problem.rules().runtime.runtime_id << "\n"
        << PlanGist(ours.plan->plan) << "\n"
        << PlanGist(all.best->plan);
  }
  EXPECT_GT(found, 10);
  EXPECT_GT(compared, 10);
}

// The paths through pipelines of three kinds of layers are never longer than the schedule,
// and hardly shorter where messages take little.
TEST(InterleavedPaths, AreNoLongerThanTheSchedule) {
  std::mt19937_64 random(7);
  const auto draw = [&random](double most) {
    return std::uniform_real_distribution<double>(0.0, most)(random);
  };
  const auto number = [&random](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  ScheduleEvaluator schedule;
  int close_count = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    const int devices = number(2, 6);
    const int chunks = number(2, 5);
    const int64_t micro_batches = int64_t{devices} * number(1, 5);
    const int middle = devices * chunks - 2 + number(0, 3);
    const PlanningProblem problem = EstimatedProblem({.device_count = 8,
                                                      .decoder_count = middle,
                                                      .hidden_size = 1024,
                                                      .attention_head_count = 16,
                                                      .global_batch_size = 8,
                                                      .rules = {.allow_estimates = true}});
    const ModelSpec& model = problem.model();
    // The rest is in the last stage.
    std::vector<int> layer_counts(devices * chunks, 1);
    layer_counts.back() += model.layer_count() - devices * chunks;
    // Every third time messages take longer than passes.
    const double most_send = number(0, 1) * (trial % 3 == 0 ? 20.0 : 0.5);
    DefinitionTimes times;
    for (size_t i = 0; i < model.layer_definitions().size(); ++i) {
      times.forward.push_back(draw(1.0));
      times.forward_backward.push_back(times.forward.back() + draw(2.0));
      times.sync.push_back(draw(3.0));
      times.backward.push_back(times.forward_backward.back() - times.forward.back());
    }
    std::vector<StageTimes> stages(layer_counts.size());
    std::vector<double> sends;
    std::vector<double> last_sends;
    double all_sends = 0.0;
    int layer = 0;
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      for (int i = 0; i < layer_counts[stage]; ++i, ++layer) {
        const int definition = model.definition_of_layer()[layer];
        stages[stage].forward += Seconds::Of(times.forward[definition]);
        stages[stage].backward +=
            Seconds::Of(times.forward_backward[definition] - times.forward[definition]);
        stages[stage].gradient_sync += Seconds::Of(times.sync[definition]);
      }
      if (stage + 1 == stages.size()) break;
      stages[stage].send = Seconds::Of(draw(most_send));
      all_sends += stages[stage].send.value();
      if (stage < static_cast<size_t>(devices)) sends.push_back(stages[stage].send.value());
      if (stage + devices >= stages.size()) last_sends.push_back(stages[stage].send.value());
    }
    const double step = schedule
                            .StepTime({.schedule = Schedule::kInterleaved,
                                       .virtual_stage_count = chunks,
                                       .blocking_messages = trial % 4 == 0},
                                      stages, micro_batches)
                            .value();
    const InterleavedPaths paths(StageCounts(model, layer_counts), devices);
    const double bound = paths.Bound(times, micro_batches, sends, last_sends, all_sends);
    EXPECT_LE(bound, step);
    EXPECT_LE(paths.Bound(times, micro_batches, {}, {}, all_sends), bound);
    if (bound > 0.9 * step) ++close_count;
  }
  EXPECT_GT(close_count, 1000);
}

// Returns the partitions of an embedding, `decoder_count` layers and a head.
InterleavedPartitions PartitionsOfDecoder(int decoder_count, int pipeline_parallel_degree,
                                          DimensionSet dimensions = DimensionSet::All()) {
  const PlanningProblem problem =
      EstimatedProblem({.device_count = 8,
                        .decoder_count = decoder_count,
                        .hidden_size = 1024,
                        .attention_head_count = 16,
                        .global_batch_size = 16,
                        .rules = {.dimensions = dimensions, .allow_estimates = true}});
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  EXPECT_OK(costs.status());
  return InterleavedPartitionsOf(StrategySpace(problem, *costs), pipeline_parallel_degree);
}

std::vector<std::vector<int>> ListedOf(const InterleavedPartitions& partitions,
                                       int virtual_stage_count) {
  std::vector<std::vector<int>> listed;
  for (const InterleavedPartition& each : partitions.listed) {
    if (each.virtual_stage_count == virtual_stage_count) listed.push_back(each.layer_counts);
  }
  return listed;
}

TEST(InterleavedSearch, CountsWhatIsNotListedAsIfTheRestWereListed) {
  const DimensionSet all = DimensionSet::All();
  for (const DimensionSet& dimensions : {all, all.Without(SearchDimension::kUnevenStages),
                                         all.Without(SearchDimension::kInterleaved)}) {
    for (const int decoder_count : {2, 5, 6, 16, 21}) {
      const PlanningProblem problem =
          EstimatedProblem({.device_count = 8,
                            .decoder_count = decoder_count,
                            .hidden_size = 1024,
                            .attention_head_count = 16,
                            .global_batch_size = 16,
                            .rules = {.dimensions = dimensions, .allow_estimates = true}});
      const CostModel costs = *CostModel::Create(problem);
      const StrategySpace space(problem, costs);
      for (const int degree : {1, 2, 4, 8}) {
        EXPECT_EQ(UnlistedVirtualStageCounts(space, degree),
                  InterleavedPartitionsOf(space, degree).unlisted)
            << decoder_count << " decoders on " << degree << " devices";
      }
    }
  }
}

TEST(InterleavedSearch, ListsAllPartitionsIfTheyAreFew) {
  // 8 layers in 4 stages: 7 over 3 ways.
  const InterleavedPartitions eight = PartitionsOfDecoder(6, 2);
  EXPECT_THAT(eight.unlisted, IsEmpty());
  const std::vector<std::vector<int>> four = ListedOf(eight, 2);
  EXPECT_EQ(four.size(), 35);
  EXPECT_EQ(std::set<std::vector<int>>(four.begin(), four.end()).size(), 35);
  for (const std::vector<int>& each : four) {
    EXPECT_EQ(std::accumulate(each.begin(), each.end(), 0), 8);
    EXPECT_GT(*std::min_element(each.begin(), each.end()), 0);
  }
  EXPECT_THAT(ListedOf(eight, 4), ElementsAre(ElementsAre(1, 1, 1, 1, 1, 1, 1, 1)));
}

TEST(InterleavedSearch, ListsEvenPartitionsAmongMany) {
  const InterleavedPartitions partitions = PartitionsOfDecoder(16, 2);
  EXPECT_THAT(partitions.unlisted, ElementsAre(2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(ListedOf(partitions, 2), ElementsAre(ElementsAre(5, 4, 4, 5)));
  // Embedding and head count as a layer each.
  EXPECT_THAT(ListedOf(partitions, 3), ElementsAre(ElementsAre(3, 3, 3, 3, 3, 3)));
  EXPECT_EQ(ListedOf(partitions, 8).size(), 1);
  EXPECT_EQ(ListedOf(partitions, 9).size(), 1);
}

TEST(InterleavedSearch, HasEvenPartitionsAloneWithoutTheirDimension) {
  const InterleavedPartitions partitions =
      PartitionsOfDecoder(6, 2, DimensionSet::All().Without(SearchDimension::kUnevenStages));
  EXPECT_THAT(partitions.unlisted, IsEmpty());
  EXPECT_EQ(partitions.listed.size(), 1);
  EXPECT_THAT(ListedOf(partitions, 3), ElementsAre(ElementsAre(2, 1, 1, 1, 1, 2)));
}

}  // namespace
}  // namespace parplan
