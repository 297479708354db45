#include "planner/search/stage/dense_assignment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "planner/search/stage/dense_kernels.h"
#include "tests/planner/search/plain_programme.h"

namespace parplan {
namespace {

// Times are multiples of 1/64 s, so that both programmes add them exactly.
DenseStage RandomDenseStage(std::mt19937_64& random) {
  const auto draw = [&random](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  DenseStage stage;
  stage.layout_count = static_cast<int>(draw(1, 4));
  const int64_t kind_count = draw(1, 3);
  const int64_t most_units = draw(0, 2) == 0 ? 700 : 20;
  for (int64_t kind = 0; kind < kind_count; ++kind) {
    DenseKind choices;
    const int64_t option_count = draw(1, 6);
    for (int64_t option = 0; option < option_count; ++option) {
      choices.options.push_back({.layout = static_cast<int>(draw(0, stage.layout_count - 1)),
                                 .time = Seconds::Of(static_cast<double>(draw(1, 12)) / 64.0),
                                 .units = draw(0, most_units)});
    }
    for (int slot = 0; slot < stage.layout_count * stage.layout_count; ++slot) {
      choices.transitions.push_back(Seconds::Of(static_cast<double>(draw(0, 3)) / 64.0));
    }
    stage.kinds.push_back(choices);
  }
  const int64_t layer_count = draw(1, 9);
  for (int64_t layer = 0; layer < layer_count; ++layer) {
    stage.kind_of_layer.push_back(static_cast<int>(draw(0, kind_count - 1)));
  }
  return stage;
}

TEST(DenseAssignment, IsThePlainProgrammeStateByState) {
  int answer_count = 0, nothing_count = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const DenseStage stage = RandomDenseStage(random);
    const int64_t capacity = static_cast<int64_t>(random() % 2000);
    const int64_t least = static_cast<int64_t>(random() % static_cast<uint64_t>(capacity + 1));
    const SearchControl control;
    SearchMeter meter(control);
    // Rows in blocks in every other case.
    DenseAssignment dense(stage, least, capacity, meter, seed % 2 == 0 ? 0 : int64_t{1} << 28);
    const PlainProgramme programme(stage, capacity);
    for (const int64_t asked : {capacity, least, (least + capacity) / 2}) {
      const std::optional<std::vector<int>> plain = programme.At(asked);
      const std::optional<DenseSolution> clever = dense.At(asked);
      ASSERT_EQ(clever.has_value(), plain.has_value()) << asked << " of " << capacity;
      ++(plain ? answer_count : nothing_count);
      if (!plain) continue;
      EXPECT_EQ(clever->options, *plain) << asked << " of " << capacity;
      EXPECT_LE(clever->units, asked);
    }
  }
  EXPECT_GT(answer_count, 100);
  EXPECT_GT(nothing_count, 100);
}

TEST(DenseAssignment, AnswersTheSameDownToTheUnitsItUses) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const DenseStage stage = RandomDenseStage(random);
    const SearchControl control;
    SearchMeter meter(control);
    const int64_t capacity = 300;
    DenseAssignment dense(stage, 0, capacity, meter);
    const std::optional<DenseSolution> solution = dense.At(capacity);
    if (!solution) continue;
    EXPECT_EQ(dense.At(solution->units)->options, solution->options);
    if (solution->units == 0) continue;
    const std::optional<DenseSolution> less = dense.At(solution->units - 1);
    if (less) {
      EXPECT_GE(less->time, solution->time);
    }
  }
}

// Three layers by hand: the fast strategy takes 4 units and 1 s, the slow one 1 unit and
// 2 s, to change costs 0.5 s. Of 9 units two layers can be fast, side by side; of equal
// costs the lowest strategy of the last layer wins, so the slow layer is the first.
TEST(DenseAssignment, SolvesThreeLayersByHand) {
  DenseStage stage;
  stage.layout_count = 2;
  const Seconds change = Seconds::Of(0.5);
  stage.kinds = {{.options = {{0, Seconds::Of(1.0), 4}, {1, Seconds::Of(2.0), 1}},
                  .transitions = {Seconds(), change, change, Seconds()}}};
  stage.kind_of_layer = {0, 0, 0};
  const SearchControl control;
  SearchMeter meter(control);
  DenseAssignment dense(stage, 0, 12, meter);
  EXPECT_EQ(dense.At(12)->options, (std::vector<int>{0, 0, 0}));
  const std::optional<DenseSolution> nine = dense.At(9);
  EXPECT_EQ(nine->options, (std::vector<int>{1, 0, 0}));
  EXPECT_EQ(nine->time, Seconds::Of(4.5));
  EXPECT_EQ(nine->units, 9);
  EXPECT_EQ(dense.At(3)->options, (std::vector<int>{1, 1, 1}));
  EXPECT_FALSE(dense.At(2).has_value());
}

TEST(DenseAssignment, StopsWhereTheMeterSays) {
  std::mt19937_64 random(7);
  const DenseStage stage = RandomDenseStage(random);
  SearchControl control;
  control.max_state_count = 1;
  SearchMeter meter(control);
  EXPECT_FALSE(DenseAssignment(stage, 0, 100000, meter).complete());
}

TEST(LeastSums, IsTheLeastOfTheSumsAtEveryLength) {
  std::mt19937_64 random(3);
  for (int64_t count = 0; count < 70; ++count) {
    for (size_t term_count = 1; term_count <= 5; ++term_count) {
      std::vector<std::vector<int32_t>> terms(term_count, std::vector<int32_t>(count));
      std::vector<const int32_t*> before;
      std::vector<int32_t> add;
      for (std::vector<int32_t>& term : terms) {
        for (int32_t& value : term) value = static_cast<int32_t>(random() % 1000);
        before.push_back(term.data());
        add.push_back(static_cast<int32_t>(random() % 100));
      }
      std::vector<int32_t> least(count + 1, -1);
      LeastSums(before, add, count, least.data());
      std::vector<int32_t> taken = least;
      TakeLeast(terms.back().data(), -50, count, taken.data());
      for (int64_t i = 0; i < count; ++i) {
        int32_t expected = std::numeric_limits<int32_t>::max();
        for (size_t j = 0; j < term_count; ++j) expected = std::min(expected, terms[j][i] + add[j]);
        EXPECT_EQ(least[i], expected);
        EXPECT_EQ(taken[i], std::min(expected, terms.back()[i] - 50));
      }
      EXPECT_EQ(least[count], -1);
      EXPECT_EQ(taken[count], -1);
    }
  }
}

}  // namespace
}  // namespace parplan
