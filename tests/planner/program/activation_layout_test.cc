#include "planner/program/activation_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "planner/cost/cost_model.h"
#include "planner/cost/same_rows.h"
#include "tests/planner/program/program_cases.h"

namespace parplan {
namespace {

using testing::ElementsAre;

TEST(GridPlace, IsTheInverseOfTheRank) {
  for (const int ranks : {1, 2, 3, 4, 6, 8, 12, 24}) {
    for (const Strategy& strategy : StrategiesOf(ranks)) {
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(RankOfPlace(strategy, PlaceOfRank(strategy, rank)), rank);
      }
    }
  }
}

TEST(GridPlace, ByHand) {
  const Strategy strategy{
      .tensor_parallel_degree = 2, .data_parallel_degree = 3, .context_parallel_degree = 2};
  EXPECT_EQ(PlaceOfRank(strategy, 0), (GridPlace{0, 0, 0}));
  EXPECT_EQ(PlaceOfRank(strategy, 1), (GridPlace{1, 0, 0}));
  EXPECT_EQ(PlaceOfRank(strategy, 2), (GridPlace{0, 1, 0}));
  EXPECT_EQ(PlaceOfRank(strategy, 4), (GridPlace{0, 0, 1}));
  Strategy turned = strategy;
  turned.rank_order = RankOrder::kDataInnermost;
  EXPECT_EQ(PlaceOfRank(turned, 1), (GridPlace{0, 0, 1}));
  EXPECT_EQ(PlaceOfRank(turned, 3), (GridPlace{0, 1, 0}));
  EXPECT_EQ(PlaceOfRank(turned, 6), (GridPlace{1, 0, 0}));
}

TEST(ActivationLayout, RingsTakeAPieceFromEitherEnd) {
  const ActivationLayout layout(8, {.context_parallel_degree = 3}, /*sample_count=*/2,
                                /*token_count=*/12);
  EXPECT_THAT(layout.TokensOf(8), ElementsAre(Interval{0, 2}, Interval{10, 12}));
  EXPECT_THAT(layout.TokensOf(9), ElementsAre(Interval{2, 4}, Interval{8, 10}));
  // Those in the middle are one piece.
  EXPECT_THAT(layout.TokensOf(10), ElementsAre(Interval{4, 8}));
  // Token 10 is the third it has, of sample 1 of two.
  EXPECT_EQ(layout.RowOf(8, 1, 10), 5);
}

TEST(ActivationLayout, SequenceParallelRanksShareWhatARingLeaves) {
  const ActivationLayout layout(
      0, {.tensor_parallel_degree = 2, .sequence_parallel = true, .context_parallel_degree = 2},
      /*sample_count=*/1, /*token_count=*/24);
  EXPECT_THAT(layout.TokensOf(0), ElementsAre(Interval{0, 6}));
  EXPECT_THAT(layout.TokensOf(1), ElementsAre(Interval{18, 24}));
  EXPECT_THAT(layout.TokensOf(2), ElementsAre(Interval{6, 12}));
  EXPECT_THAT(layout.TokensOf(3), ElementsAre(Interval{12, 18}));
}

// Every row is held, by as many ranks as share it: those that are tensor-parallel without
// sequence parallelism; and rows of a rank are numbered from 0 without gaps.
TEST(ActivationLayout, EveryRowIsHeldEquallyOften) {
  for (const int ranks : {1, 2, 3, 4, 6, 8, 12}) {
    for (const Strategy& strategy : StrategiesOf(ranks)) {
      const ActivationLayout layout(5, strategy, /*sample_count=*/24, /*token_count=*/24);
      std::map<std::pair<int64_t, int64_t>, int> holders;
      for (int rank = 5; rank < 5 + ranks; ++rank) {
        int64_t row = 0;
        const Interval samples = layout.SamplesOf(rank);
        for (const Interval& tokens : layout.TokensOf(rank)) {
          for (int64_t token = tokens.begin; token < tokens.end; ++token) {
            for (int64_t sample = samples.begin; sample < samples.end; ++sample) {
              ++holders[{sample, token}];
              ASSERT_EQ(layout.RowOf(rank, sample, token), row++);
            }
          }
        }
        ASSERT_EQ(row, layout.RowCount());
      }
      ASSERT_EQ(holders.size(), 24u * 24u);
      const int expected = strategy.sequence_parallel ? 1 : strategy.tensor_parallel_degree;
      for (const auto& [unused, count] : holders) ASSERT_EQ(count, expected);
    }
  }
}

// If the planner predicts no movement, ranks hold the same as before.
TEST(ActivationLayout, IsTheSameWhereTheCostModelMovesNothing) {
  const GroupCosts::ReshardingTimes moves = {Seconds::Of(1.0), Seconds::Of(2.0)};
  int free_count = 0;
  int priced_count = 0;
  for (const int ranks : {1, 2, 4, 6, 12}) {
    for (const Strategy& from : StrategiesOf(ranks)) {
      for (const Strategy& to : StrategiesOf(ranks)) {
        if (from.sequence_parallel != to.sequence_parallel) continue;
        const bool is_free = GroupCosts::TransitionTime(from, to, moves, moves) == Seconds();
        ++(is_free ? free_count : priced_count);
        if (!is_free) continue;
        EXPECT_TRUE(ActivationLayout(0, from, 24, 24).IsSameAs(ActivationLayout(0, to, 24, 24)))
            << StrategyNotation(1, from) << " and " << StrategyNotation(1, to);
      }
    }
  }
  EXPECT_GT(free_count, 30);
  EXPECT_GT(priced_count, 300);
}

// Layouts that the runtime `torch` does not exchange are the same, and only those: also where
// tokens that tensor-parallel ranks share are those that Ulysses would share.
TEST(ActivationLayout, IsTheSameWhereRanksHoldTheSameRows) {
  int same_count = 0;
  int other_strategy_count = 0;
  for (const int ranks : {1, 2, 4, 6, 12}) {
    for (const Strategy& from : StrategiesOf(ranks)) {
      for (const Strategy& to : StrategiesOf(ranks)) {
        const bool is_same =
            ActivationLayout(0, from, 24, 24).IsSameAs(ActivationLayout(0, to, 24, 24));
        ASSERT_EQ(HoldSameRows(from, to), is_same)
            << StrategyNotation(1, from) << " and " << StrategyNotation(1, to);
        same_count += is_same ? 1 : 0;
        other_strategy_count +=
            is_same && from.tensor_parallel_degree != to.tensor_parallel_degree ? 1 : 0;
      }
    }
  }
  EXPECT_GT(same_count, 30);
  EXPECT_GT(other_strategy_count, 0);
}

}  // namespace
}  // namespace parplan
