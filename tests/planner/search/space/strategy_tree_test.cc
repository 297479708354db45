#include "planner/search/space/strategy_tree.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/estimated_problem.h"
#include "tests/support/synthetic_problem.h"

namespace parplan {
namespace {

int CountAll(int device_count, bool with_recompute) {
  size_t count = 0;
  for (int64_t degree : Divisors(device_count)) {
    count += StageStrategies(device_count / static_cast<int>(degree), with_recompute).size();
  }
  return static_cast<int>(count);
}

TEST(StrategyTree, HasAsManyStrategiesAsTheClosedForm) {
  // papers.md 1.1: sources have 22, 37 and 44, the others are derived, and so is the closed form
  // 2n^2+n+1 for 2^n devices.
  const int expected[] = {1, 4, 11, 22, 37, 56, 79, 106, 137, 172, 211};
  for (int n = 0; n <= 10; ++n) {
    EXPECT_EQ(CountAll(1 << n, false), expected[n]);
    EXPECT_EQ(CountAll(1 << n, false), 2 * n * n + n + 1);
    EXPECT_EQ(CountAll(1 << n, true), 2 * expected[n]);
  }
}

TEST(StrategyTree, OfOnePipelineDegreeHas4kMinus1) {
  EXPECT_EQ(StageStrategies(1, false).size(), 1u);
  for (int k = 1; k <= 10; ++k) {
    EXPECT_EQ(StageStrategies(1 << k, false).size(), static_cast<size_t>(4 * k - 1));
  }
}

TEST(StrategyTree, HasThe22StrategiesFor8Devices) {
  std::set<std::string> names;
  for (int degree : {1, 2, 4, 8}) {
    for (const Strategy& strategy : StageStrategies(8 / degree, false)) {
      EXPECT_TRUE(names.insert(StrategyNotation(degree, strategy)).second);
    }
  }
  const std::set<std::string> expected = {
      "1-1-8",   "1-1-8f",  "1-2*-4", "1-2*-4f", "1-2-4*", "1-2-4f*", "1-4*-2",  "1-4*-2f",
      "1-4-2*",  "1-4-2f*", "1-8-1",  "2-1-4",   "2-1-4f", "2-2*-2",  "2-2*-2f", "2-2-2*",
      "2-2-2f*", "2-4-1",   "4-1-2",  "4-1-2f",  "4-2-1",  "8-1-1"};
  EXPECT_EQ(names, expected);
}

TEST(StrategyTree, NamesAreDistinctWithRecomputation) {
  std::set<std::string> names;
  for (int degree : {1, 2, 4, 8}) {
    for (const Strategy& strategy : StageStrategies(8 / degree, true)) {
      names.insert(StrategyNotation(degree, strategy));
    }
  }
  EXPECT_EQ(names.size(), 44u);
}

// All ordered paths of the tree before the third rule: every sequence of
// distinct paradigms among three, with node degrees of at least 2.
int CountPaths(int ranks, int unused_paradigms) {
  if (ranks == 1) return 1;
  int count = 0;
  for (int paradigm = 0; paradigm < 3; ++paradigm) {
    if ((unused_paradigms & (1 << paradigm)) == 0) continue;
    for (int degree = 2; degree <= ranks; ++degree) {
      if (ranks % degree == 0) {
        count += CountPaths(ranks / degree, unused_paradigms & ~(1 << paradigm));
      }
    }
  }
  return count;
}

TEST(StrategyTree, BeforeTheThirdRuleHas34PathsFor8Devices) {
  const int expected[] = {1, 4, 13, 34, 73, 136, 229, 358, 529};
  for (int n = 0; n <= 8; ++n) {
    int count = 0;
    for (int k = 0; k <= n; ++k) count += CountPaths(1 << k, 0b111);
    EXPECT_EQ(count, expected[n]);
  }
}

TEST(StrategyTree, IsAscendingAndCanonical) {
  for (int ranks : {1, 2, 6, 8, 12, 64}) {
    const std::vector<Strategy> strategies = StageStrategies(ranks, true);
    EXPECT_TRUE(std::is_sorted(strategies.begin(), strategies.end()));
    for (const Strategy& strategy : strategies) {
      EXPECT_EQ(strategy.rank_count(), ranks);
      EXPECT_FALSE(strategy.sequence_parallel);
      if (strategy.tensor_parallel_degree == 1 || strategy.data_parallel_degree == 1) {
        EXPECT_EQ(strategy.rank_order, RankOrder::kTensorInnermost);
      }
    }
  }
}

TEST(AllowedStrategies, ObeyHeadsBatchAndRules) {
  SyntheticOptions options{.attention_head_count = 4, .global_batch_size = 4};
  options.rules.allow_sharded_data_parallel = false;
  const PlanningProblem problem = SyntheticProblem(options);
  const int decoder = problem.model().definition_of_layer()[1];
  const int head = problem.model().definition_of_layer().back();
  for (const Strategy& strategy : AllowedStrategies(problem, {}, decoder, 8, 4, true)) {
    EXPECT_LE(strategy.tensor_parallel_degree, 4);
    EXPECT_LE(strategy.data_parallel_degree, 4);
    EXPECT_EQ(strategy.sharding_level, ShardingLevel::kNone);
    EXPECT_EQ(strategy.sequence_parallel, strategy.tensor_parallel_degree > 1);
  }
  // (2, 4) and (4, 2), both orders, with and without recomputation.
  EXPECT_EQ(AllowedStrategies(problem, {}, decoder, 8, 4, false).size(), 8u);
  EXPECT_EQ(AllowedStrategies(problem, {}, head, 8, 4, false).size(), 4u);
  EXPECT_TRUE(AllowedStrategies(problem, {}, decoder, 8, 1, false).empty());
  const SearchSpace only_sharded{.sharding = SearchSpace::Sharding::kAlways};
  EXPECT_TRUE(AllowedStrategies(problem, only_sharded, decoder, 8, 4, false).empty());
}

TEST(AllowedStrategies, SpreadATiedTableInOneWay) {
  EstimatedOptions options;
  options.device_count = 8;
  options.decoder_count = 2;
  const PlanningProblem problem = EstimatedProblem(options);
  const Strategy way{.tensor_parallel_degree = 2,
                     .data_parallel_degree = 4,
                     .sharding_level = ShardingLevel::kParameters};
  const SearchSpace space{.table_strategy = way};
  EXPECT_GT(AllowedStrategies(problem, space, 1, 8, 8, false).size(), 1u);
  for (const int end : {0, 2}) {
    EXPECT_THAT(AllowedStrategies(problem, space, end, 8, 8, false), testing::ElementsAre(way));
    // Nor is it sharded where two stages hold it, which decoders may be.
    for (const Strategy& strategy : AllowedStrategies(problem, {}, end, 4, 8, false)) {
      EXPECT_EQ(strategy.sharding_level, ShardingLevel::kNone);
    }
  }
  const std::vector<Strategy> decoders = AllowedStrategies(problem, {}, 1, 4, 8, false);
  EXPECT_TRUE(std::any_of(decoders.begin(), decoders.end(), [](const Strategy& strategy) {
    return strategy.sharding_level == ShardingLevel::kParameters;
  }));
}

TEST(Divisors, AreAllOfThemAscending) {
  EXPECT_THAT(Divisors(1), testing::ElementsAre(1));
  EXPECT_THAT(Divisors(12), testing::ElementsAre(1, 2, 3, 4, 6, 12));
  EXPECT_THAT(Divisors(49), testing::ElementsAre(1, 7, 49));
}

}  // namespace
}  // namespace parplan
