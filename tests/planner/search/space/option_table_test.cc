#include "planner/search/space/option_table.h"
#include "planner/cost/rank_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "planner/cost/predict_plan.h"
#include "planner/model/search_space.h"
#include "planner/model/tied_table.h"
#include "tests/support/brute_force_menus.h"
#include "tests/support/brute_force_space.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/random_problem.h"

namespace parplan {
namespace {

EstimatedOptions TwoNodes() {
  EstimatedOptions options;
  options.device_count = 16;
  options.decoder_count = 4;
  options.hidden_size = 2048;
  options.attention_head_count = 16;
  options.sequence_length = 1024;
  options.global_batch_size = 32;
  options.rules = {.allow_estimates = true};
  return options;
}

TEST(OptionTable, SaysWhatTheCostModelSays) {
  for (const int expert_count : {0, 4}) {
    EstimatedOptions options = TwoNodes();
    options.expert_count = expert_count;
    options.rules.runtime.attention_kernel = AttentionKernel::kUnfused;
    options.rules.runtime.widens_gradients_in_step = true;
    options.rules.runtime.flatten_gradient_buckets = true;
    const PlanningProblem problem = EstimatedProblem(options);
    const CostModel costs = *CostModel::Create(problem);
    const StrategySpace space(problem, costs);
    for (const int degree : {1, 4}) {
      const OptionTable table(problem, costs, space, degree, 8);
      ASSERT_TRUE(table.usable());
      for (int definition = 0; definition < 3; ++definition) {
        const std::vector<Strategy> strategies = space.Strategies(definition, degree, 8);
        const std::vector<StageOption>& options_of = table.options(definition);
        ASSERT_FALSE(options_of.empty());
        for (size_t i = 0; i < options_of.size(); ++i) {
          const StageOption& option = options_of[i];
          SCOPED_TRACE(StrategyNotation(degree, option.strategy));
          EXPECT_TRUE(i == 0 || options_of[i - 1].strategy < option.strategy);
          EXPECT_TRUE(std::binary_search(strategies.begin(), strategies.end(), option.strategy));
          const LayerCost cost =
              costs.group(kFirstGroup).CostOfLayer(definition, option.strategy, 8, degree);
          EXPECT_EQ(option.forward, cost.forward);
          EXPECT_EQ(option.backward, cost.backward);
          EXPECT_EQ(option.sync, cost.gradient_sync + cost.optimizer_step);
          EXPECT_EQ(option.states, cost.states());
          EXPECT_EQ(option.states_in_step, cost.memory.states());
          EXPECT_EQ(option.kept, cost.kept_per_micro_batch());
          EXPECT_EQ(option.transient, cost.transient());
          EXPECT_EQ(option.step, cost.memory.step);
          EXPECT_EQ(option.bucket, cost.memory.bucket);
          EXPECT_EQ(option.communicator_count, CommunicatorCount(option.strategy, degree, false));
        }
      }
    }
  }
}

TEST(OptionTable, MovesActivationsAsTheCostModelDoes) {
  EstimatedOptions options = TwoNodes();
  for (const bool scattered : {false, true}) {
    options.rules.runtime.scattered_pipeline_messages = scattered;
    options.rules.runtime.sequence_parallel = !scattered;
    const PlanningProblem problem = EstimatedProblem(options);
    const CostModel costs = *CostModel::Create(problem);
    const StrategySpace space(problem, costs);
    for (const int degree : {1, 4}) {
      const OptionTable table(problem, costs, space, degree, 8);
      EXPECT_GT(table.layout_count(), 1);
      for (int from = 0; from < 3; ++from) {
        for (int to = 0; to < 3; ++to) {
          for (const StageOption& a : table.options(from)) {
            for (const StageOption& b : table.options(to)) {
              EXPECT_EQ(table.Transition(to, a.layout, b.layout),
                        costs.group(kFirstGroup).TransitionTime(to, a.strategy, b.strategy, 8));
              for (const bool leaves_node : {false, true}) {
                EXPECT_EQ(table.Send(from, a.layout, b.layout, leaves_node),
                          degree == 1 ? Seconds()
                                      : costs.SendTime(kFirstGroup, kFirstGroup, from, a.strategy,
                                                       b.strategy, 16 / degree, leaves_node, 8));
              }
            }
            EXPECT_EQ(
                table.Message(from, a.layout),
                costs.group(kFirstGroup).CostOfLayer(from, a.strategy, 8, degree).memory.message);
          }
        }
      }
    }
  }
}

// All devices of the node are equivalent, so one of many layouts remains.
TEST(OptionTable, KeepsFewLayouts) {
  const PlanningProblem problem = EstimatedProblem(TwoNodes());
  const CostModel costs = *CostModel::Create(problem);
  const StrategySpace space(problem, costs);
  const OptionTable table(problem, costs, space, 2, 8);
  size_t strategy_count = 0;
  size_t option_count = 0;
  for (int definition = 0; definition < 3; ++definition) {
    strategy_count += space.Strategies(definition, 2, 8).size();
    option_count += table.options(definition).size();
  }
  EXPECT_LT(option_count * 4, strategy_count);
}

TEST(LeastTimes, AreThoseOfTheFastestStrategies) {
  EstimatedOptions options = TwoNodes();
  options.rules.runtime.attention_kernel = AttentionKernel::kUnfused;
  const PlanningProblem problem = EstimatedProblem(options);
  const CostModel costs = *CostModel::Create(problem);
  const StrategySpace space(problem, costs);
  LeastTimesMemo memo;
  LeastTimesFinder finder(problem, costs, space, memo);
  for (const int degree : {1, 2, 4}) {
    for (const int64_t micro_batch_size : {1, 2, 8, 32}) {
      SCOPED_TRACE(degree);
      SCOPED_TRACE(micro_batch_size);
      const LeastTimes least = LeastTimesOf(problem, costs, space, degree, micro_batch_size);
      const LeastTimes again = finder.Find(degree, micro_batch_size);
      ASSERT_TRUE(least.usable);
      for (int definition = 0; definition < 3; ++definition) {
        Seconds forward = Seconds::Infinite();
        Seconds backward = Seconds::Infinite();
        Seconds both = Seconds::Infinite();
        for (const Strategy& strategy : space.Strategies(definition, degree, micro_batch_size)) {
          const LayerCost cost =
              costs.group(kFirstGroup).CostOfLayer(definition, strategy, micro_batch_size, degree);
          forward = std::min(forward, cost.forward);
          backward = std::min(backward, cost.backward);
          both = std::min(both, cost.forward + cost.backward);
        }
        EXPECT_EQ(least.forward[definition], forward);
        EXPECT_EQ(least.backward[definition], backward);
        EXPECT_EQ(least.forward_and_backward[definition], both);
        EXPECT_EQ(again.forward[definition], forward);
        EXPECT_EQ(again.backward[definition], backward);
        EXPECT_EQ(again.forward_and_backward[definition], both);
      }
    }
  }
}

// Spaces of one question share a memo, whichever asks first and whatever it leaves out.
TEST(LeastTimes, AreTheSameWithAMemoOfOtherSpaces) {
  const PlanningProblem problem = EstimatedProblem(TwoNodes());
  const CostModel costs = *CostModel::Create(problem);
  const DimensionSet all = problem.dimensions();
  const DimensionSet without_context =
      all.Without(SearchDimension::kContext).Without(SearchDimension::kUlysses);
  const DimensionSet sets[] = {without_context,
                               all,
                               without_context,
                               all.Without(SearchDimension::kRankOrder),
                               all.Without(SearchDimension::kTensor),
                               all};
  LeastTimesMemo memo;
  for (const DimensionSet& dimensions : sets) {
    SCOPED_TRACE(dimensions.ToString());
    PlanningRules rules = problem.rules();
    rules.dimensions = dimensions;
    const PlanningProblem part = problem.WithRules(rules);
    const StrategySpace space(part, costs);
    LeastTimesFinder finder(part, costs, space, memo);
    for (const int degree : {1, 2, 4}) {
      for (const int64_t micro_batch_size : {1, 3, 8}) {
        const LeastTimes alone = LeastTimesOf(part, costs, space, degree, micro_batch_size);
        const LeastTimes shared = finder.Find(degree, micro_batch_size);
        EXPECT_EQ(shared.usable, alone.usable);
        EXPECT_EQ(shared.forward, alone.forward);
        EXPECT_EQ(shared.backward, alone.backward);
        EXPECT_EQ(shared.forward_and_backward, alone.forward_and_backward);
      }
    }
  }
}

TEST(LeastTimes, AreNoneWhereALayerHasNoStrategy) {
  EstimatedOptions options = TwoNodes();
  options.rules.dimensions = DimensionSet().With(SearchDimension::kPipeline);
  const PlanningProblem problem = EstimatedProblem(options);
  const CostModel costs = *CostModel::Create(problem);
  const StrategySpace space(problem, costs);
  // Sixteen ranks and no way to spread eight samples over them but by data parallelism.
  EXPECT_FALSE(LeastTimesOf(problem, costs, space, 1, 8).usable);
  EXPECT_FALSE(OptionTable(problem, costs, space, 1, 8).usable());
  EXPECT_TRUE(LeastTimesOf(problem, costs, space, 2, 8).usable);
}

TEST(PlanWideMasks, SpreadATiedTableInOneWayEach) {
  for (const int degree : {1, 4}) {
    const PlanningProblem problem = EstimatedProblem(TwoNodes());
    ASSERT_TRUE(HasTiedTable(problem.model()));
    const CostModel costs = *CostModel::Create(problem);
    const StrategySpace space(problem, costs);
    const OptionTable table(problem, costs, space, degree, 8);
    EXPECT_EQ(RelaxedMasks(space, table).size(), 1u);
    const std::vector<OptionMask> masks = PlanWideMasks(space, table);
    EXPECT_GT(masks.size(), 1u);
    for (const OptionMask& mask : masks) {
      EXPECT_EQ(std::count(mask[1].begin(), mask[1].end(), 0), 0);
      int pair_count = 0;
      for (size_t i = 0; i < mask[0].size(); ++i) {
        for (size_t j = 0; j < mask[2].size(); ++j) {
          if (!mask[0][i] || !mask[2][j]) continue;
          ++pair_count;
          const Strategy& embedding = table.options(0)[i].strategy;
          const Strategy& head = table.options(2)[j].strategy;
          EXPECT_TRUE(HoldTableAlike(embedding, head));
          EXPECT_TRUE(degree == 1 || head.sharding_level == ShardingLevel::kNone);
        }
      }
      EXPECT_GT(pair_count, 0);
    }
  }
}

// A plan with what it is compared by.
struct Point {
  Seconds step;
  Bytes memory;
};

// Every assignment of strategies to layers within the masks of the table, on every
// partition; visits only neighbours the table lets move.
void ForEachTablePlan(const PlanningProblem& problem, const StrategySpace& space,
                      const OptionTable& table, const PlanShape& shape,
                      const std::function<void(const Plan&, const std::vector<Strategy>&)>& visit) {
  const std::vector<int>& definitions = problem.model().definition_of_layer();
  const int layer_count = problem.model().layer_count();
  for (const OptionMask& mask : PlanWideMasks(space, table)) {
    for (const std::vector<int>& partition : PartitionsOf(problem, shape)) {
      std::vector<const StageOption*> chosen;
      const std::function<void()> choose = [&] {
        const int layer = static_cast<int>(chosen.size());
        if (layer == layer_count) {
          std::vector<Strategy> strategies;
          for (const StageOption* option : chosen) strategies.push_back(option->strategy);
          visit(MakePlan(problem, shape, partition, strategies), strategies);
          return;
        }
        const int definition = definitions[layer];
        const std::vector<StageOption>& options = table.options(definition);
        for (size_t i = 0; i < options.size(); ++i) {
          if (!mask[definition][i]) continue;
          if (layer > 0 &&
              !table.Transition(definition, chosen.back()->layout, options[i].layout).is_finite()) {
            continue;
          }
          // Interleaved plans have one strategy a definition.
          const auto same = std::find(definitions.begin(), definitions.begin() + layer, definition);
          if (shape.virtual_stage_count > 1 && same != definitions.begin() + layer &&
              chosen[same - definitions.begin()] != &options[i]) {
            continue;
          }
          chosen.push_back(&options[i]);
          choose();
          chosen.pop_back();
        }
      };
      choose();
    }
  }
}

// The plans of all menus, each with every partition.
void ForEachPlan(const PlanningProblem& problem, const std::vector<LayerMenus>& all,
                 const PlanShape& shape, const std::function<void(const Plan&)>& visit) {
  for (const LayerMenus& menus : all) {
    for (const std::vector<int>& partition : PartitionsOf(problem, shape)) {
      std::vector<Strategy> strategies;
      const std::function<void()> choose = [&] {
        if (strategies.size() == menus.size()) {
          return visit(MakePlan(problem, shape, partition, strategies));
        }
        for (const Strategy& strategy : menus[strategies.size()]) {
          strategies.push_back(strategy);
          choose();
          strategies.pop_back();
        }
      };
      choose();
    }
  }
}

bool InMenus(const std::vector<LayerMenus>& all, const std::vector<Strategy>& strategies) {
  return std::any_of(all.begin(), all.end(), [&](const LayerMenus& menus) {
    for (size_t layer = 0; layer < menus.size(); ++layer) {
      if (std::find(menus[layer].begin(), menus[layer].end(), strategies[layer]) ==
          menus[layer].end()) {
        return false;
      }
    }
    return true;
  });
}

// Options of the declared space that dominance, layouts and masks remove never help: every plan of
// the space is matched in time and memory by a plan of the table, whose plans all belong to the
// space.
TEST(OptionTable, LosesNoPlanWorthHaving) {
  constexpr uint64_t kSeedCount = 300;
  int plan_count = 0;
  int table_plan_count = 0;
  for (uint64_t seed = 1; seed <= kSeedCount; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem problem =
        RandomProblem(seed, {.max_plan_count = 8000, .memory_binds = false});
    const CostModel costs = *CostModel::Create(problem);
    const StrategySpace space(problem, costs);
    PlanEvaluator evaluator(problem, costs);
    const auto point_of = [&](const Plan& plan) {
      const PlanScore score = evaluator.Evaluate(plan);
      return Point{score.step, score.peak_memory_upper};
    };
    for (const PlanShape& shape : ShapesOf(problem)) {
      const std::vector<LayerMenus> all = MenusOf(problem, costs, shape);
      const OptionTable table(problem, costs, space, shape.pipeline_parallel_degree,
                              shape.micro_batch_size());
      std::vector<Point> front;
      int strange_count = 0;
      if (table.usable()) {
        ForEachTablePlan(problem, space, table, shape,
                         [&](const Plan& plan, const std::vector<Strategy>& strategies) {
                           ++table_plan_count;
                           if (!InMenus(all, strategies)) ++strange_count;
                           front.push_back(point_of(plan));
                         });
      }
      EXPECT_EQ(strange_count, 0) << "plans are not in the space";
      const auto less = [](const Point& a, const Point& b) {
        return a.step != b.step ? a.step < b.step : a.memory < b.memory;
      };
      std::sort(front.begin(), front.end(), less);
      int unmatched = 0;
      ForEachPlan(problem, all, shape, [&](const Plan& plan) {
        ++plan_count;
        const Point point = point_of(plan);
        const Seconds most = point.step * (1.0 + 1e-12);
        const bool is_matched = std::any_of(front.begin(), front.end(), [&](const Point& other) {
          return other.step <= most && other.memory <= point.memory;
        });
        if (!is_matched) ++unmatched;
      });
      EXPECT_EQ(unmatched, 0) << "of degree " << shape.pipeline_parallel_degree << ", "
                              << shape.micro_batch_count << " micro-batches, "
                              << shape.virtual_stage_count << " virtual stages";
    }
  }
  std::printf("%d plans, %d of tables\n", plan_count, table_plan_count);
  EXPECT_LT(table_plan_count, plan_count);
}

}  // namespace
}  // namespace parplan
