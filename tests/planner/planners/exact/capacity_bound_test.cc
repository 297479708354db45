#include "planner/planners/exact/capacity_bound.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "planner/cost/cost_model.h"
#include "planner/planners/exact/exact_candidates.h"
#include "planner/planners/exact/interleaved/interleaved_search.h"
#include "planner/planners/exact/pipeline/pipeline_search.h"
#include "planner/search/space/option_table.h"
#include "tests/support/brute_force_plans.h"
#include "tests/support/large_problem.h"
#include "tests/support/random_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// A cutoff that a step of this time is just below.
Seconds JustAbove(Seconds step) { return step * (1.0 + 1e-6); }

TEST(LeastCostsOf, AreNoMoreThanThoseOfAnyOption) {
  int option_count = 0;
  for (uint64_t seed = 21'000; seed < 21'060; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem problem = RandomProblem(seed);
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
    const StrategySpace space(problem, costs);
    const ModelSpec& model = problem.model();
    std::map<int, int> layer_counts;
    for (const ModelLayerRun& run : model.layer_runs()) {
      layer_counts[run.definition_index] += run.layer_count;
    }
    for (const int depth : space.PipelineDegrees()) {
      const int64_t size = problem.global_batch_size();
      const OptionTable table(problem, costs, space, depth, size, OptionTable::Keeps::kAll);
      if (!table.usable()) continue;
      const LeastCosts least = LeastCostsOf(space, costs, depth, size);
      ASSERT_LE(least.definitions.size(), LeastCosts::kMaxDefinitions);
      // Definitions are told apart by their options: each of the model's is compared with those of
      // its number of layers, one of which is its own.
      for (const auto& counted : layer_counts) {
        const int definition = counted.first;
        const int layer_count = counted.second;
        if (!IsTransformer(model.layer_definitions()[definition].kind)) continue;
        const auto bounds_all = [&](const LeastCosts::Layers& layers) {
          return layers.layer_count == layer_count &&
                 std::all_of(
                     table.options(definition).begin(), table.options(definition).end(),
                     [&](const StageOption& option) {
                       return std::any_of(
                           layers.costs.begin(), layers.costs.end(), [&](const LeastCost& cost) {
                             return cost.time <= (option.forward + option.backward).value() *
                                                     (1.0 + 1e-12) &&
                                    cost.states <= option.states.as_double() &&
                                    cost.kept <= option.kept.as_double();
                           });
                     });
        };
        const bool is_common = std::any_of(
            least.definitions.begin(), least.definitions.end(),
            [&](const LeastCosts::Layers& layers) { return layers.layer_count == layer_count; });
        if (!is_common) continue;
        EXPECT_TRUE(std::any_of(least.definitions.begin(), least.definitions.end(), bounds_all))
            << "definition " << definition << ", " << depth << " stages";
        for (const StageOption& option : table.options(definition)) {
          EXPECT_GE(option.transient.as_double(), -least.most_freed);
          ++option_count;
        }
      }
    }
  }
  EXPECT_GT(option_count, 500);
}

// The best plan of each shape of which all plans were looked at: no bound excludes it, and where no
// plan of a shape fits, any answer is right.
TEST(CapacityBound, ExcludesNoPlanThatFits) {
  int plan_count = 0;
  int closed_count = 0;
  for (uint64_t seed = 22'000; seed < 22'100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem problem = RandomProblem(seed);
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
    const StrategySpace space(problem, costs);
    for (const auto& [shape, best] : BestOfEveryShape(problem, costs)) {
      // Larger groups are searched apart.
      if (shape.micro_batch_group_size != 0) continue;
      const PipelineCandidate candidate = {shape.global_batch_size, shape.micro_batch_count,
                                           shape.pipeline_parallel_degree, shape.schedule};
      const LeastCosts least =
          LeastCostsOf(space, costs, shape.pipeline_parallel_degree, shape.micro_batch_size());
      ++plan_count;
      const Seconds step = best.prediction.step;
      EXPECT_EQ(CapacityBound(space, costs, least, candidate, JustAbove(step)), Seconds())
          << PlanGist(best.plan);
      EXPECT_EQ(CapacityBound(space, costs, least, candidate, Seconds::Infinite()), Seconds());
      // A bound is nothing or all of what was asked for.
      const Seconds less = step * 0.5;
      const Seconds bound = CapacityBound(space, costs, least, candidate, less);
      EXPECT_TRUE(bound == Seconds() || bound == less);
      closed_count += bound == less ? 1 : 0;
    }
  }
  EXPECT_GT(plan_count, 200);
  EXPECT_GT(closed_count, plan_count / 10);
}

// The same for models of many layers, against the plans of `exact`, which has tables. What the
// bound closes is what it is for: candidates that memory makes slow.
TEST(CapacityBound, ExcludesNoPlanOfLargeProblems) {
  int plan_count = 0;
  int close_count = 0;
  int empty_count = 0;
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    LargeOptions options =
        RandomLargeOptions(seed, /*max_layer_count=*/24, /*max_device_count=*/32);
    const int64_t gibibytes[] = {80, 16, 8, 4};
    options.device_memory = Bytes::Of(gibibytes[seed % 4] << 30);
    const PlanningProblem problem = LargeProblem(options);
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
    const StrategySpace space(problem, costs);
    const SearchControl control;
    for (const int depth : space.PipelineDegrees()) {
      for (const int64_t size : {int64_t{2}, int64_t{16}}) {
        const OptionTable table(problem, costs, space, depth, size);
        if (!table.usable()) continue;
        const LeastCosts least = LeastCostsOf(space, costs, depth, size);
        for (const Schedule schedule : space.Schedules(depth)) {
          const int64_t count = 4 * int64_t{depth};
          const PipelineCandidate candidate = {count * size, count, depth, schedule};
          SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << depth << " stages, size "
                                          << size << ", schedule " << static_cast<int>(schedule));
          const bool interleaves = TraitsOf(schedule).has_virtual_stages;
          SearchMeter meter(control);
          const auto search = interleaves ? SearchInterleaved : TryPipeline;
          const PipelineOutcome outcome =
              search(space, costs, table, candidate, Seconds::Infinite(), /*wanted=*/1, meter);
          const Seconds any = CapacityBound(space, costs, least, candidate, Seconds::Infinite());
          if (outcome.plans.empty()) {
            empty_count += any.is_finite() ? 0 : 1;
            continue;
          }
          ++plan_count;
          const Seconds step = outcome.plans.front().prediction.step;
          EXPECT_EQ(any, Seconds());
          EXPECT_EQ(CapacityBound(space, costs, least, candidate, JustAbove(step)), Seconds());
          const Seconds less = step * 0.6;
          if (CapacityBound(space, costs, least, candidate, less) == less) ++close_count;
        }
      }
    }
  }
  EXPECT_GT(plan_count, 120);
  EXPECT_GT(close_count, plan_count / 10);
  EXPECT_GT(empty_count, 0);
}

// Twin of the hull: shares of a device's memory that options of one kind of layer take, tried in
// steps.
TEST(CapacityBound, IsWhatSharesOfMemoryAllow) {
  LargeOptions options;
  options.device_count = 8;
  options.runs = {{.layer_count = 8, .feed_forward_size = 14336}};
  options.device_memory = Bytes::Of(int64_t{40} << 30);
  const PlanningProblem problem = LargeProblem(options);
  ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
  const StrategySpace space(problem, costs);
  const double room = costs.searched_group()
                          .overheads()
                          .TensorBudget(problem.usable_memory(), 1, problem.device_count())
                          .as_double();
  const double gib = 1 << 30;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    // Three options: fast ones need much memory.
    LeastCosts least;
    auto next = [state = seed * 7919]() mutable {
      state = state * 6364136223846793005 + 1442695040888963407;
      return static_cast<double>(state >> 40) / static_cast<double>(1 << 24);
    };
    const double first = 1.0 + next();
    const double second = first * (1.0 + next());
    const double third = second * (1.0 + next());
    const int layer_count = 4 + static_cast<int>(seed % 9);
    least.definitions.push_back(
        {.layer_count = layer_count,
         .costs = {{first, gib * (4.0 + 8.0 * next()), gib * (2.0 + 2.0 * next())},
                   {second, gib * (2.0 + 4.0 * next()), gib * next()},
                   {third, gib * (1.0 + 2.0 * next()), gib * next()}}});
    // The least time of one micro-batch in which the shares hold all layers, in steps of 1/200.
    constexpr int kSteps = 200;
    double best = std::numeric_limits<double>::infinity();
    const std::vector<LeastCost>& of = least.definitions.front().costs;
    for (int a = 0; a <= kSteps; ++a) {
      for (int b = 0; a + b <= kSteps; ++b) {
        const double layers[] = {layer_count * (a / double{kSteps}),
                                 layer_count * (b / double{kSteps}),
                                 layer_count * ((kSteps - a - b) / double{kSteps})};
        double bytes = 0.0;
        double time = 0.0;
        bool fits = true;
        for (int k = 0; k < 3; ++k) {
          fits = fits && (layers[k] == 0.0 || of[k].states + of[k].kept <= room);
          bytes += layers[k] * (of[k].states + of[k].kept);
          time += layers[k] * of[k].time;
        }
        if (fits && bytes <= room) best = std::min(best, time);
      }
    }
    const PipelineCandidate candidate = {1, 1, 1, kDefaultSchedule};
    const auto bound = [&](double step) {
      const Seconds cutoff = Seconds::Of(step) + costs.step_overhead();
      return CapacityBound(space, costs, least, candidate, cutoff);
    };
    if (best == std::numeric_limits<double>::infinity()) {
      // The steps may miss shares that just fit; the hull never does.
      continue;
    }
    EXPECT_EQ(bound(best * (1.0 + 1e-6)), Seconds());
    EXPECT_GT(bound(best * 0.98), Seconds());
  }
}

}  // namespace
}  // namespace parplan
