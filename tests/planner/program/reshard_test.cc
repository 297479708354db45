#include "planner/program/reshard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "tests/planner/program/program_cases.h"

namespace parplan {
namespace {

constexpr int64_t kSamples = 12;
constexpr int64_t kTokens = 24;

// The value of a row; different for every row.
int64_t ValueOf(int64_t sample, int64_t token) { return sample * 1000 + token; }

using Rows = std::vector<int64_t>;

Rows HeldBy(const ActivationLayout& layout, int rank) {
  Rows rows(layout.RowCount(), -1);
  const Interval samples = layout.SamplesOf(rank);
  for (int64_t sample = samples.begin; sample < samples.end; ++sample) {
    for (const Interval& tokens : layout.TokensOf(rank)) {
      for (int64_t token = tokens.begin; token < tokens.end; ++token) {
        rows[layout.RowOf(rank, sample, token)] = ValueOf(sample, token);
      }
    }
  }
  return rows;
}

template <typename F>
void ForEachRow(const ActivationBlock& block, F work) {
  for (int64_t sample = block.samples.begin; sample < block.samples.end; ++sample) {
    for (int64_t token = block.tokens.begin; token < block.tokens.end; ++token) {
      work(sample, token);
    }
  }
}

// Runs the programs of all ranks on their rows; returns rows moved between ranks.
int64_t ExpectMoves(const ActivationLayout& from, const ActivationLayout& to) {
  std::map<std::pair<int, int>, std::deque<std::pair<ActivationBlock, Rows>>> under_way;
  std::map<int, ReshardProgram> programs;
  for (const ActivationLayout* layout : {&from, &to}) {
    for (int r = 0; r < layout->rank_count(); ++r) {
      const int rank = layout->first_rank() + r;
      programs.try_emplace(rank, MakeReshard(from, to, rank));
    }
  }
  int64_t moved = 0;
  // Lambdas cannot capture the names of a structured binding in every compiler.
  for (const auto& entry : programs) {
    const auto rank = entry.first;
    for (const Transfer& send : entry.second.sends) {
      Rows rows;
      const Rows held = HeldBy(from, rank);
      ForEachRow(send.block, [&](int64_t sample, int64_t token) {
        rows.push_back(held[from.RowOf(rank, sample, token)]);
      });
      moved += static_cast<int64_t>(rows.size());
      under_way[{rank, send.peer}].push_back({send.block, rows});
    }
  }
  for (const auto& entry : programs) {
    const auto rank = entry.first;
    const auto& program = entry.second;
    if (!to.Has(rank)) {
      EXPECT_TRUE(program.receives.empty() && program.copies.empty());
      continue;
    }
    Rows rows(to.RowCount(), -1);
    for (const ActivationBlock& block : program.copies) {
      ForEachRow(block, [&](int64_t sample, int64_t token) {
        rows[to.RowOf(rank, sample, token)] = HeldBy(from, rank)[from.RowOf(rank, sample, token)];
      });
    }
    for (const Transfer& receive : program.receives) {
      auto& way = under_way[{receive.peer, rank}];
      EXPECT_FALSE(way.empty());
      if (way.empty()) return moved;
      EXPECT_EQ(way.front().first, receive.block);
      size_t next = 0;
      ForEachRow(receive.block, [&](int64_t sample, int64_t token) {
        rows[to.RowOf(rank, sample, token)] = way.front().second[next++];
      });
      way.pop_front();
    }
    EXPECT_EQ(rows, HeldBy(to, rank)) << "rank " << rank;
  }
  for (const auto& [unused, way] : under_way) EXPECT_TRUE(way.empty());
  return moved;
}

TEST(Reshard, AllPairsOfLayoutsWithinAStage) {
  for (const int ranks : {1, 2, 3, 4, 6}) {
    for (const Strategy& a : StrategiesOf(ranks)) {
      for (const Strategy& b : StrategiesOf(ranks)) {
        const ActivationLayout from(3, a, kSamples, kTokens);
        const ActivationLayout to(3, b, kSamples, kTokens);
        const int64_t moved = ExpectMoves(from, to);
        EXPECT_TRUE(moved == 0 || !from.IsSameAs(to));
        if (testing::Test::HasFailure()) {
          FAIL() << ranks << " ranks: " << StrategyNotation(1, a) << " to "
                 << StrategyNotation(1, b);
        }
      }
    }
  }
}

TEST(Reshard, AllPairsOfLayoutsBetweenStages) {
  for (const int ranks : {1, 2, 4, 6}) {
    for (const Strategy& a : StrategiesOf(ranks)) {
      for (const Strategy& b : StrategiesOf(ranks)) {
        const ActivationLayout from(0, a, kSamples, kTokens);
        const ActivationLayout to(ranks, b, kSamples, kTokens);
        // Each rank of the next stage gets all it holds from one of this.
        EXPECT_EQ(ExpectMoves(from, to), ranks * to.RowCount());
        if (testing::Test::HasFailure()) FAIL() << StrategyNotation(2, a);
      }
    }
  }
}

// Tensor-parallel ranks all have the same: two data-parallel ranks become one pair of them
// by getting each other's half, and the other way round nothing is moved.
TEST(Reshard, ByHand) {
  const ActivationLayout data(0, {.data_parallel_degree = 2}, /*sample_count=*/2,
                              /*token_count=*/4);
  const ActivationLayout tensor(0, {.tensor_parallel_degree = 2}, 2, 4);
  const ReshardProgram gather = MakeReshard(data, tensor, 0);
  EXPECT_THAT(gather.copies, testing::ElementsAre(ActivationBlock{{0, 1}, {0, 4}}));
  EXPECT_THAT(gather.sends, testing::ElementsAre(Transfer{1, {{0, 1}, {0, 4}}}));
  EXPECT_THAT(gather.receives, testing::ElementsAre(Transfer{1, {{1, 2}, {0, 4}}}));
  const ReshardProgram slice = MakeReshard(tensor, data, 1);
  EXPECT_THAT(slice.copies, testing::ElementsAre(ActivationBlock{{1, 2}, {0, 4}}));
  EXPECT_TRUE(slice.sends.empty() && slice.receives.empty());
}

}  // namespace
}  // namespace parplan
