#include "planner/search/stage/layer_assignment.h"

#include <algorithm>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/brute_force.h"
#include "tests/support/random_stage.h"

namespace parplan {
namespace {

using testing::ElementsAre;

std::variant<StageAssignment, BudgetTooSmall> Assign(const StageChoices& stage, Bytes budget) {
  const SearchControl control;
  SearchMeter meter(control);
  return AssignStrategies(stage, budget, meter);
}

Seconds TimeWith(const StageChoices& stage, Bytes budget) {
  const auto result = Assign(stage, budget);
  const auto* found = std::get_if<StageAssignment>(&result);
  return found == nullptr ? Seconds::Infinite() : found->time;
}

// Two options in two layouts: fast and large, slow and small.
StageChoices FastOrSmall(int layer_count) {
  StageChoices stage;
  stage.layout_count = 2;
  LayerChoices layer;
  layer.options = {{.strategy = {}, .layout = 0, .time = Seconds::Of(1.0), .kept = Bytes::Of(10)},
                   {.strategy = {.tensor_parallel_degree = 2},
                    .layout = 1,
                    .time = Seconds::Of(3.0),
                    .kept = Bytes::Of(4)}};
  layer.transitions = {Seconds(), Seconds::Of(0.5), Seconds::Of(0.25), Seconds()};
  stage.kinds = {layer};
  stage.runs = {{.kind = 0, .layer_count = layer_count}};
  return stage;
}

TEST(AssignStrategies, AnswersThreeLayersWorkedByHand) {
  const StageChoices stage = FastOrSmall(3);
  // Room for one small layer: at an end it costs one transition, and the way
  // back from small to fast is the cheaper one, so it comes first.
  const auto result = Assign(stage, Bytes::Of(24));
  const StageAssignment& found = std::get<StageAssignment>(result);
  EXPECT_THAT(found.options, ElementsAre(1, 0, 0));
  EXPECT_DOUBLE_EQ(found.time.value(), 3.0 + 0.25 + 1.0 + 1.0);
  EXPECT_EQ(found.peak, Bytes::Of(24));
  EXPECT_TRUE(found.is_exact);
  EXPECT_THAT(std::get<StageAssignment>(Assign(stage, Bytes::Of(30))).options,
              ElementsAre(0, 0, 0));
  EXPECT_THAT(std::get<StageAssignment>(Assign(stage, Bytes::Of(12))).options,
              ElementsAre(1, 1, 1));
}

TEST(AssignStrategies, CountsTheLargestTransientOnce) {
  StageChoices stage = FastOrSmall(3);
  stage.kinds[0].options[0].transient = Bytes::Of(5);
  stage.kinds[0].options[1].transient = Bytes::Of(3);
  EXPECT_EQ(std::get<StageAssignment>(Assign(stage, Bytes::Of(35))).peak, Bytes::Of(35));
  EXPECT_THAT(std::get<StageAssignment>(Assign(stage, Bytes::Of(34))).options,
              ElementsAre(1, 0, 0));
  EXPECT_EQ(std::get<BudgetTooSmall>(Assign(stage, Bytes::Of(14))).smallest_budget, Bytes::Of(15));
}

TEST(AssignStrategies, AgreesWithBruteForce) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    // Few values make ties, many values make none.
    const StageChoices stage = RandomStage(random, {.max_value = seed % 2 == 0 ? 4 : 1000});
    const Bytes smallest = BruteForceSmallestBudget(stage);
    EXPECT_EQ(SmallestBudget(stage), smallest);
    for (int64_t slack : {-1, 0, 1, 3, 10, 100, 700, 10000}) {
      const Bytes budget = smallest + Bytes::Of(slack);
      const std::optional<StageAssignment> expected = BruteForceAssign(stage, budget);
      const auto result = Assign(stage, budget);
      if (!expected) {
        ASSERT_TRUE(std::holds_alternative<BudgetTooSmall>(result));
        EXPECT_EQ(std::get<BudgetTooSmall>(result).smallest_budget, smallest);
        continue;
      }
      ASSERT_TRUE(std::holds_alternative<StageAssignment>(result));
      const StageAssignment& found = std::get<StageAssignment>(result);
      EXPECT_NEAR(found.time.value(), expected->time.value(), expected->time.value() * 1e-12);
      EXPECT_EQ(found.peak, expected->peak);
      EXPECT_EQ(found.options, expected->options);
    }
  }
}

TEST(AssignStrategies, IsNeverWorseThanThePapersGrid) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    StageChoices stage =
        RandomStage(random, {.max_layer_count = 12, .max_option_count = 8, .max_value = 1000});
    const Bytes smallest = SmallestBudget(stage);
    for (double share : {1.0, 1.1, 1.4, 2.0, 4.0}) {
      const Bytes budget = Bytes::Ceil(smallest.as_double() * share) + Bytes::Of(1);
      const std::optional<Seconds> grid = GridAssign(stage, budget, Bytes::Of(16));
      if (!grid) continue;
      EXPECT_LE(TimeWith(stage, budget).value(), grid->value() * (1.0 + 1e-12));
    }
  }
}

TEST(AssignStrategies, EqualsThePapersGridWhereNothingIsRounded) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    StageChoices stage =
        RandomStage(random, {.max_layer_count = 12, .max_option_count = 8, .max_value = 60});
    for (LayerChoices& kind : stage.kinds) {
      for (LayerOption& option : kind.options) option.transient = Bytes();
    }
    const Bytes smallest = SmallestBudget(stage);
    for (int64_t slack : {0, 5, 20, 60, 200}) {
      const Bytes budget = smallest + Bytes::Of(slack);
      const std::optional<Seconds> grid = GridAssign(stage, budget, Bytes::Of(1));
      ASSERT_TRUE(grid.has_value());
      EXPECT_NEAR(TimeWith(stage, budget).value(), grid->value(), grid->value() * 1e-12);
    }
  }
}

TEST(AssignStrategies, MoreMemoryIsNeverSlower) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20; ++round) {
    const StageChoices stage =
        RandomStage(random, {.max_layer_count = 20, .max_option_count = 10, .max_value = 300});
    Seconds before = Seconds::Infinite();
    const Bytes smallest = SmallestBudget(stage);
    for (int64_t slack = 0; slack < 3000; slack += 100) {
      const Seconds time = TimeWith(stage, smallest + Bytes::Of(slack));
      EXPECT_LE(time, before);
      before = time;
    }
  }
}

TEST(AssignStrategies, FasterTransitionsAreNeverSlower) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 50; ++round) {
    StageChoices stage =
        RandomStage(random, {.max_layer_count = 12, .max_option_count = 6, .max_value = 300});
    const Bytes budget = SmallestBudget(stage) + Bytes::Of(200);
    const Seconds before = TimeWith(stage, budget);
    for (LayerChoices& kind : stage.kinds) {
      for (Seconds& transition : kind.transitions) transition = transition * 0.5;
    }
    // Ticks of another length round differently.
    EXPECT_LE(TimeWith(stage, budget).value(), before.value() * (1.0 + 1e-12));
  }
}

TEST(AssignStrategies, SplittingARunChangesNothing) {
  std::mt19937_64 random(9);
  for (int round = 0; round < 50; ++round) {
    const StageChoices stage =
        RandomStage(random, {.max_layer_count = 10, .max_option_count = 5, .max_value = 10});
    StageChoices split = stage;
    split.runs.clear();
    for (const LayerChoiceRun& run : stage.runs) {
      split.runs.insert(split.runs.end(), run.layer_count, {.kind = run.kind, .layer_count = 1});
    }
    const Bytes budget = SmallestBudget(stage) + Bytes::Of(7);
    EXPECT_EQ(std::get<StageAssignment>(Assign(stage, budget)).options,
              std::get<StageAssignment>(Assign(split, budget)).options);
  }
}

TEST(AssignStrategies, DoublingAllMemoryAndTheBudgetChangesNothing) {
  std::mt19937_64 random(10);
  for (int round = 0; round < 50; ++round) {
    const StageChoices stage =
        RandomStage(random, {.max_layer_count = 10, .max_option_count = 5, .max_value = 100});
    StageChoices doubled = stage;
    for (LayerChoices& kind : doubled.kinds) {
      for (LayerOption& option : kind.options) {
        option.kept = option.kept * 2;
        option.transient = option.transient * 2;
      }
    }
    const Bytes budget = SmallestBudget(stage) + Bytes::Of(50);
    EXPECT_EQ(std::get<StageAssignment>(Assign(stage, budget)).options,
              std::get<StageAssignment>(Assign(doubled, budget * 2)).options);
  }
}

TEST(AssignStrategies, StopsWithAnAssignmentThatFits) {
  std::mt19937_64 random(11);
  int stopped = 0;
  for (int round = 0; round < 50; ++round) {
    const StageChoices stage =
        RandomStage(random, {.max_layer_count = 30, .max_option_count = 12, .max_value = 1000});
    const Bytes budget = SmallestBudget(stage) + Bytes::Of(500);
    const SearchControl control{.max_state_count = 5};
    SearchMeter meter(control);
    const auto result = AssignStrategies(stage, budget, meter);
    const StageAssignment& found = std::get<StageAssignment>(result);
    EXPECT_LE(found.peak, budget);
    EXPECT_GE(found.time, TimeWith(stage, budget));
    EXPECT_EQ(found.is_exact, !meter.stopped());
    stopped += meter.stopped() ? 1 : 0;
    EXPECT_EQ(meter.limit(), meter.stopped() ? SearchLimit::kStates : SearchLimit::kNone);
  }
  EXPECT_GT(stopped, 0);
}

}  // namespace
}  // namespace parplan
