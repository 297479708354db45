#include "planner/search/stage/front_stage.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/search/stage/stage_front.h"
#include "tests/planner/search/front_values.h"

namespace parplan {
namespace {

// Dimensions of a random stage.
struct Shape {
  int max_layer_count = 5;
  int max_kind_count = 3;
  int max_option_count = 4;
  int max_layout_count = 3;
  int max_value = 20;
};

using Random = std::mt19937_64;

// Layouts without any order in them: ways over a third one may be shorter, and some are
// closed.
std::vector<Seconds> RandomTransitions(Random& random, int layout_count, int max_value) {
  const bool has_closed_ways = Draw(random, 0, 5) == 0;
  std::vector<Seconds> transitions;
  for (int slot = 0; slot < layout_count * layout_count; ++slot) {
    if (slot / layout_count == slot % layout_count) {
      transitions.emplace_back();
    } else if (has_closed_ways && Draw(random, 0, 2) == 0) {
      transitions.push_back(Seconds::Infinite());
    } else {
      transitions.push_back(Seconds::Milliseconds(Draw(random, 0, max_value / 4)));
    }
  }
  return transitions;
}

FrontStage RandomStage(Random& random, const Shape& shape) {
  FrontStage stage;
  stage.layout_count = Draw(random, 1, shape.max_layout_count);
  stage.first_layout_matters = Draw(random, 0, 3) > 0;
  stage.last_layout_matters = Draw(random, 0, 3) > 0;
  stage.has_step = Draw(random, 0, 3) == 0;
  stage.gradient_bucket = Bytes::Of(Draw(random, 0, shape.max_value));
  const int kind_count = Draw(random, 1, shape.max_kind_count);
  const int less_budget = Draw(random, 0, 1) * Draw(random, 0, shape.max_value);
  for (int index = 0; index < kind_count; ++index) {
    FrontKind kind;
    const int option_count = Draw(random, 1, shape.max_option_count);
    for (int option = 0; option < option_count; ++option) {
      const Bytes held = Bytes::Of(Draw(random, 0, shape.max_value));
      const Bytes step_held =
          stage.has_step ? Bytes::Of(Draw(random, 0, shape.max_value)) : Bytes();
      kind.options.push_back(
          {.option = option,
           .layout = Draw(random, 0, stage.layout_count - 1),
           .forward = Seconds::Milliseconds(Draw(random, 1, shape.max_value)),
           .backward = Seconds::Milliseconds(Draw(random, 1, shape.max_value)),
           .sync = Seconds::Milliseconds(Draw(random, 0, shape.max_value)),
           .held = held,
           .transient = Bytes::Of(Draw(random, 0, 2) == 0 ? Draw(random, 0, shape.max_value) : 0),
           .step_held = step_held,
           .step_held_with_bucket =
               stage.has_step ? step_held + Bytes::Of(Draw(random, 0, shape.max_value)) : Bytes(),
           .budget = Bytes::Of(Draw(random, 0, 3) == 0 ? -less_budget : 0)});
    }
    kind.transitions = RandomTransitions(random, stage.layout_count, shape.max_value);
    stage.kinds.push_back(kind);
  }
  int layers_left = Draw(random, 1, shape.max_layer_count);
  while (layers_left > 0) {
    const int kind = Draw(random, 0, kind_count - 1);
    const int count = Draw(random, 1, layers_left);
    layers_left -= count;
    if (!stage.runs.empty() && stage.runs.back().kind == kind) {
      stage.runs.back().layer_count += count;
    } else {
      stage.runs.push_back({kind, count});
    }
  }
  // Kinds no layer has are none.
  std::vector<FrontKind> used;
  std::vector<int> number(kind_count, -1);
  for (FrontRun& run : stage.runs) {
    if (number[run.kind] < 0) {
      number[run.kind] = static_cast<int>(used.size());
      used.push_back(stage.kinds[run.kind]);
    }
    run.kind = number[run.kind];
  }
  stage.kinds = used;
  if (Draw(random, 0, 2) == 0) {
    for (int layout = 0; layout < stage.layout_count; ++layout) {
      stage.output_held.push_back(Bytes::Of(Draw(random, 0, shape.max_value)));
    }
  }
  return stage;
}

FrontStage WithBudget(FrontStage stage, Bytes budget) {
  for (FrontKind& kind : stage.kinds) {
    for (FrontOption& option : kind.options) option.budget += budget;
  }
  return stage;
}

// An assignment, worked out layer by layer.
struct Worked {
  StageChoice choice;
  Bytes held;
  Bytes needed;
  Bytes budget = Bytes::Max();
  bool fits() const { return needed <= budget; }
};

std::vector<int> KindOfLayer(const FrontStage& stage) {
  std::vector<int> kinds;
  for (const FrontRun& run : stage.runs) kinds.insert(kinds.end(), run.layer_count, run.kind);
  return kinds;
}

// `positions`: [layer] index into the options of its kind.
Worked WorkOut(const FrontStage& stage, const std::vector<int>& positions) {
  const std::vector<int> kinds = KindOfLayer(stage);
  Worked worked;
  Bytes transient;
  Bytes step;
  Bytes step_with_bucket;
  int layout_before = -1;
  for (size_t layer = 0; layer < positions.size(); ++layer) {
    const FrontKind& kind = stage.kinds[kinds[layer]];
    const FrontOption& option = kind.options[positions[layer]];
    worked.choice.forward += option.forward;
    worked.choice.backward += option.backward;
    worked.choice.sync += option.sync;
    if (layer == 0) {
      worked.choice.first_layout = option.layout;
    } else {
      const Seconds move =
          kind.transitions[layout_before * stage.layout_count + option.layout] * 0.5;
      worked.choice.forward += move;
      worked.choice.backward += move;
    }
    layout_before = option.layout;
    worked.choice.options.push_back(option.option);
    worked.held += option.held;
    transient = std::max(transient, option.transient);
    step += option.step_held;
    step_with_bucket += option.step_held_with_bucket;
    worked.budget = std::min(worked.budget, option.budget);
  }
  worked.choice.last_layout = layout_before;
  if (stage.joins_passes) {
    worked.choice.forward += worked.choice.backward;
    worked.choice.backward = Seconds();
  }
  if (!stage.output_held.empty()) worked.held += stage.output_held[layout_before];
  worked.needed = worked.held + transient;
  if (stage.has_step) {
    worked.needed =
        std::max(worked.needed, std::min(step_with_bucket, step + stage.gradient_bucket));
  }
  return worked;
}

// Every assignment whose transitions exist.
std::vector<Worked> Everything(const FrontStage& stage) {
  const std::vector<int> kinds = KindOfLayer(stage);
  std::vector<int> positions(kinds.size(), 0);
  std::vector<Worked> all;
  while (true) {
    Worked worked = WorkOut(stage, positions);
    if (worked.choice.forward.is_finite()) all.push_back(std::move(worked));
    size_t layer = 0;
    while (layer < positions.size() &&
           ++positions[layer] == static_cast<int>(stage.kinds[kinds[layer]].options.size())) {
      positions[layer++] = 0;
    }
    if (layer == positions.size()) return all;
  }
}

bool Matches(const FrontStage& stage, const StageChoice& a, const StageChoice& b) {
  const auto at_most = [](Seconds x, Seconds y) {
    return x.value() <= y.value() * (1.0 + kFrontTolerance);
  };
  return (a.first_layout == b.first_layout || !stage.first_layout_matters) &&
         (a.last_layout == b.last_layout || !stage.last_layout_matters) &&
         at_most(a.forward, b.forward) && at_most(a.backward, b.backward) &&
         at_most(a.sync, b.sync);
}

StageFront Solve(const FrontStage& stage, const std::vector<LinearCut>& cuts) {
  const SearchControl control;
  SearchMeter meter(control);
  return SolveFront(stage, cuts, meter);
}

void ExpectFront(const FrontStage& stage, const std::vector<LinearCut>& cuts,
                 const std::vector<Worked>& all) {
  const StageFront front = Solve(stage, cuts);
  EXPECT_TRUE(front.is_complete);
  for (const StageChoice& choice : front.choices) {
    const Worked worked = WorkOut(stage, choice.options);
    EXPECT_TRUE(worked.fits());
    EXPECT_TRUE(Matches(stage, choice, worked.choice) && Matches(stage, worked.choice, choice));
    for (const LinearCut& cut : cuts) {
      EXPECT_LE(Value(cut, choice), cut.limit * (1.0 + 1e-9));
    }
    for (const StageChoice& other : front.choices) {
      if (&other == &choice) continue;
      EXPECT_FALSE(Matches(stage, choice, other));
    }
  }
  for (const Worked& worked : all) {
    if (!worked.fits()) continue;
    const bool is_within = std::all_of(cuts.begin(), cuts.end(), [&worked](const LinearCut& cut) {
      return Value(cut, worked.choice) <= cut.limit;
    });
    if (!is_within) continue;
    EXPECT_TRUE(std::any_of(
        front.choices.begin(), front.choices.end(),
        [&](const StageChoice& choice) { return Matches(stage, choice, worked.choice); }))
        << testing::PrintToString(worked.choice.options);
  }
}

std::vector<LinearCut> RandomCuts(Random& random, const std::vector<Worked>& all,
                                  int least_forward = 0) {
  std::vector<LinearCut> cuts;
  for (int count = Draw(random, 0, 3); count > 0; --count) {
    LinearCut cut = {.forward = 1.0 * Draw(random, least_forward, 8),
                     .backward = 1.0 * Draw(random, 0, 8),
                     .sync = 1.0 * Draw(random, 0, 3)};
    double least = std::numeric_limits<double>::infinity();
    for (const Worked& worked : all) {
      if (worked.fits()) least = std::min(least, Value(cut, worked.choice));
    }
    if (!std::isfinite(least)) continue;
    cut.limit = least * (1.0 + 0.05 * Draw(random, 0, 10));
    cuts.push_back(cut);
  }
  return cuts;
}

Bytes LeastMemory(const FrontStage& stage) {
  Bytes least = Bytes::Max();
  for (const Worked& worked : Everything(stage)) {
    least = std::min(least, worked.needed - worked.budget);
  }
  return least;
}

TEST(SolveFront, IsAllThatBruteForceFinds) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    // Few values make ties, many make none.
    const FrontStage stage = RandomStage(random, {.max_value = seed % 2 == 0 ? 6 : 1000});
    Bytes least = Bytes::Max();
    for (const Worked& worked : Everything(stage)) {
      least = std::min(least, worked.needed - worked.budget);
    }
    if (least == Bytes::Max()) continue;
    for (double share : {1.0, 1.05, 1.3, 3.0}) {
      const FrontStage with = WithBudget(stage, Bytes::Ceil(least.as_double() * share));
      const std::vector<Worked> all = Everything(with);
      ExpectFront(with, RandomCuts(random, all), all);
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_TRUE(Solve(WithBudget(stage, least - Bytes::Of(1)), {}).choices.empty());
  }
}

// A stage whose passes are one.
FrontStage RandomJoinedStage(Random& random, uint64_t seed, const Shape& options) {
  FrontStage stage = RandomStage(random, options);
  stage.joins_passes = true;
  for (FrontKind& kind : stage.kinds) {
    for (FrontOption& option : kind.options) {
      option.forward += option.backward;
      option.backward = Seconds();
      if (seed % 3 == 0) option.sync = Seconds();
    }
    // Moves that are little beside layers, as between most layouts of models.
    if (seed % 4 != 0) continue;
    for (Seconds& move : kind.transitions) move = move * 0.1;
  }
  return stage;
}

void ExpectFronts(const FrontStage& stage, Random& random, int least_forward = 0) {
  const Bytes least = LeastMemory(stage);
  if (least == Bytes::Max()) return;
  for (double share : {1.0, 1.1, 2.0}) {
    const FrontStage with = WithBudget(stage, Bytes::Ceil(least.as_double() * share));
    const std::vector<Worked> all = Everything(with);
    ExpectFront(with, RandomCuts(random, all, least_forward), all);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(SolveFront, IsAllThatBruteForceFindsOfJoinedPasses) {
  for (uint64_t seed = 2'000; seed < 2'600; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    ExpectFronts(
        RandomJoinedStage(
            random, seed,
            {.max_kind_count = 2, .max_layout_count = 4, .max_value = seed % 2 == 0 ? 6 : 1000}),
        random);
    if (testing::Test::HasFailure()) return;
  }
}

// Larger ones, some of which once were solved wrongly: a slope of nothing but rounding, a
// layer that holds nothing, a cut that does not count forward passes.
TEST(SolveFront, IsAllThatBruteForceFindsOfLargerStages) {
  for (const uint64_t seed : {7'872, 16'687, 21'508, 30'001, 30'002}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    for (const int least_forward : {0, 1}) {
      Shape options = {.max_layer_count = 7,
                       .max_kind_count = 2,
                       .max_option_count = 4,
                       .max_layout_count = 4,
                       .max_value = seed % 2 == 0 ? 6 : 1000};
      Random joined(seed);
      ExpectFronts(RandomJoinedStage(joined, seed, options), joined, least_forward);
      options.max_kind_count = 1 + static_cast<int>(seed % 3);
      Random plain(seed);
      ExpectFronts(RandomStage(plain, options), plain, least_forward);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(SolveFront, OfWaysThatAreKnownOnlyFasterOnesAreFound) {
  int faster = 0;
  int left_out = 0;
  for (uint64_t seed = 3'000; seed < 3'400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    FrontStage stage = RandomStage(random, {.max_value = 1000});
    stage.joins_passes = true;
    for (FrontKind& kind : stage.kinds) {
      for (FrontOption& option : kind.options) option.backward = option.sync = Seconds();
    }
    const Bytes least = LeastMemory(stage);
    if (least == Bytes::Max()) continue;
    stage = WithBudget(stage, Bytes::Ceil(least.as_double() * 1.2));
    const std::vector<LinearCut> cuts = {{1.0, 1.0, 0.0, 1e3}};
    const StageFront all = Solve(stage, cuts);
    // [choice] what is known of its ends, as a share of its way; 0: nothing.
    std::vector<double> known;
    for (const StageChoice& choice : all.choices) {
      known.push_back(0.5 * Draw(random, 0, 3));
      if (known.back() == 0.0) continue;
      stage.known.push_back(
          {choice.first_layout, choice.last_layout, choice.forward * known.back()});
    }
    const StageFront found = Solve(stage, cuts);
    for (size_t k = 0; k < all.choices.size(); ++k) {
      const bool is_found = std::any_of(
          found.choices.begin(), found.choices.end(),
          [&](const StageChoice& choice) { return Matches(stage, choice, all.choices[k]); });
      // A plan as fast as the known one is no improvement.
      if (known[k] != 1.0) {
        EXPECT_EQ(is_found, known[k] == 0.0 || known[k] > 1.0);
      }
      faster += is_found ? 1 : 0;
      left_out += is_found ? 0 : 1;
    }
  }
  EXPECT_GT(faster, 50);
  EXPECT_GT(left_out, 50);
}

// Every layer a kind of its own, so that nothing is folded.
FrontStage Unfolded(const FrontStage& stage) {
  FrontStage unfolded = stage;
  unfolded.kinds.clear();
  unfolded.runs.clear();
  for (int kind : KindOfLayer(stage)) {
    unfolded.runs.push_back({static_cast<int>(unfolded.kinds.size()), 1});
    unfolded.kinds.push_back(stage.kinds[kind]);
  }
  return unfolded;
}

// Whether each choice of one has a match in the other.
bool Covers(const FrontStage& stage, const StageFront& front, const StageFront& other) {
  return std::all_of(other.choices.begin(), other.choices.end(), [&](const StageChoice& wanted) {
    return std::any_of(front.choices.begin(), front.choices.end(),
                       [&](const StageChoice& choice) { return Matches(stage, choice, wanted); });
  });
}

TEST(SolveFront, FoldedLayersAreAsLayersOneByOne) {
  int choices = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    FrontStage stage =
        RandomStage(random, {.max_layer_count = 3, .max_option_count = 3, .max_layout_count = 2});
    for (FrontRun& run : stage.runs) run.layer_count += Draw(random, 0, 5);
    stage = WithBudget(stage, Bytes::Of(Draw(random, 20, 150)));
    const StageFront folded = Solve(stage, {});
    const StageFront unfolded = Solve(Unfolded(stage), {});
    EXPECT_TRUE(Covers(stage, folded, unfolded));
    EXPECT_TRUE(Covers(stage, unfolded, folded));
    choices += static_cast<int>(folded.choices.size());
  }
  EXPECT_GT(choices, 300);
}

TEST(SolveFront, MoreMemoryIsNeverWorse) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const FrontStage stage = RandomStage(random, {.max_value = 100});
    const Bytes least = LeastMemory(stage);
    if (least == Bytes::Max()) continue;
    StageFront before;
    for (int64_t more : {0, 5, 20, 50, 100, 200, 500}) {
      StageFront front = Solve(WithBudget(stage, least + Bytes::Of(more)), {});
      EXPECT_FALSE(front.choices.empty());
      EXPECT_TRUE(Covers(stage, front, before));
      before = std::move(front);
    }
  }
}

TEST(SolveFront, SaysWhenALimitEndedIt) {
  int ended = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const FrontStage stage = WithBudget(RandomStage(random, {}), Bytes::Of(1'000'000));
    const SearchControl control = {.max_state_count = 2};
    SearchMeter meter(control);
    const StageFront front = SolveFront(stage, {}, meter);
    EXPECT_EQ(front.is_complete, !meter.stopped());
    if (Solve(stage, {}).choices.size() > 2) {
      EXPECT_FALSE(front.is_complete);
    }
    ended += front.is_complete ? 0 : 1;
  }
  EXPECT_GT(ended, 5);
}

}  // namespace
}  // namespace parplan
