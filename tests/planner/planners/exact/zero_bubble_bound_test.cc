// Steps of ZB-H1 by hand, and its laws beside 1F1B.

#include <algorithm>
#include <cstdint>
#include <random>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "planner/cost/pipeline_schedule.h"
#include "planner/planners/exact/zero_bubble_bound.h"

namespace parplan {
namespace {

StageTimes SplitStage(double forward, double inputs, double weights, double send = 0.0,
                      double sync = 0.0) {
  return {Seconds::Of(forward), Seconds::Of(inputs + weights), Seconds::Of(send), Seconds::Of(sync),
          Seconds::Of(weights)};
}

double ZeroBubbleStep(const std::vector<StageTimes>& stages, int64_t micro_batch_count) {
  return StepTime(Schedule::kZeroBubble, stages, micro_batch_count).value();
}

double WholeStep(const std::vector<StageTimes>& stages, int64_t micro_batch_count) {
  return StepTime(Schedule::kOneForwardOneBackward, stages, micro_batch_count).value();
}

std::vector<StageTimes> RandomSplitStages(std::mt19937_64& random, int depth) {
  std::uniform_real_distribution<double> time(0.1, 2.0);
  std::vector<StageTimes> stages;
  for (int i = 0; i < depth; ++i) {
    stages.push_back(SplitStage(time(random), time(random), time(random), 0.2 * time(random),
                                random() % 2 == 0 ? time(random) : 0.0));
  }
  return stages;
}

// Four stages, eight micro-batches, f = b = w = 1. The last device begins at 3, after the forward
// passes in front, and never waits: eight forward and eight backward passes, and four weight passes
// before the last of them, end at 3 + 16 + 4 = 23. Three more backward passes reach the first
// device, 26, and its last weight pass ends at 27. 24 of that is work; the rest is the bubble of
// the paper's table, (P - 1) (f + b - w) = 3, where 1F1B waits (P - 1) (f + b + w) = 9.
TEST(ZeroBubbleStep, OfThePaperIsItsBubble) {
  const std::vector<StageTimes> stages(4, SplitStage(1, 1, 1));
  EXPECT_DOUBLE_EQ(ZeroBubbleStep(stages, 8), 24.0 + 3.0);
  EXPECT_DOUBLE_EQ(WholeStep(stages, 8), 24.0 + 9.0);
}

// The paper's bubble holds for equal stages with w <= f and as many micro-batches as stages. Where
// weights take longer, the first device waits (P - 1) b for its first gradient, which is more.
TEST(ZeroBubbleStep, OfEqualStagesIsTheClosedForm) {
  for (const int depth : {2, 3, 5, 8}) {
    for (const int64_t m : {8, 9, 30}) {
      for (const auto& [f, b, w] : {std::tuple(1.0, 1.0, 1.0), std::tuple(2.0, 3.0, 1.0),
                                    std::tuple(1.0, 2.0, 0.0), std::tuple(1.0, 1.0, 2.0)}) {
        const std::vector<StageTimes> stages(depth, SplitStage(f, b, w));
        const double bubble = (depth - 1) * std::max(f + b - w, b);
        EXPECT_NEAR(ZeroBubbleStep(stages, m), static_cast<double>(m) * (f + b + w) + bubble, 1e-9)
            << depth << " stages, " << m << ", w " << w;
      }
    }
  }
}

TEST(ZeroBubbleStep, WithoutWeightsIsThatOfOneForwardOneBackward) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<StageTimes> stages = RandomSplitStages(random, 1 + static_cast<int>(random() % 7));
    for (StageTimes& stage : stages) stage.backward_weights = Seconds();
    const auto m = static_cast<int64_t>(1 + random() % 40);
    EXPECT_NEAR(ZeroBubbleStep(stages, m), WholeStep(stages, m), 1e-12 * WholeStep(stages, m));
  }
}

// Passes begin no later than in 1F1B, but device d ends with up to d weight passes more. That is
// hidden if each of them takes no longer than a gradient needs through a device in front of it, and
// synchronisation does not differ.
TEST(ZeroBubbleStep, IsNeverLongerIfWeightPassesAreNoLongerThanBackwardPassesInFront) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 2000; ++round) {
    std::vector<StageTimes> stages = RandomSplitStages(random, 2 + static_cast<int>(random() % 6));
    double shortest = stages.front().backward.value();
    for (StageTimes& stage : stages) {
      stage.gradient_sync = Seconds();
      stage.backward_weights = std::min(stage.backward_weights, Seconds::Of(shortest));
      shortest = std::min(shortest, stage.backward.value());
    }
    const auto m = static_cast<int64_t>(1 + random() % 30);
    EXPECT_LE(ZeroBubbleStep(stages, m), WholeStep(stages, m) * (1.0 + 1e-12)) << round;
  }
}

// The order is fixed before the times are known, so ZB-H1 can be slower. The last stage is the
// slowest one and has no weight passes; the second one waits for it before each backward pass, but
// keeps one weight pass of 3 for the end, while only 1 is left to do in front. The last stage ends
// at 2 + 2 (4 + 6); then 1F1B has 1 + 3 in the second stage and 1 in the first to do, ZB-H1 1 + 3 +
// 3 in the second.
TEST(ZeroBubbleStep, IsLongerWhereALongWeightPassIsKeptForTheEnd) {
  const std::vector<StageTimes> stages = {SplitStage(1, 0.5, 0.5), SplitStage(1, 1, 3),
                                          SplitStage(4, 6, 0)};
  EXPECT_DOUBLE_EQ(WholeStep(stages, 2), 2 + 2 * 10 + 4 + 1);
  EXPECT_DOUBLE_EQ(ZeroBubbleStep(stages, 2), 2 + 2 * 10 + 1 + 3 + 3);
}

// Any division of layers into stages, simulated, takes at least the bound over all divisions.
TEST(ZeroBubbleBound, IsBelowEveryPartition) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> time(0.1, 2.0);
  double closest = 1e9;
  for (int round = 0; round < 3000; ++round) {
    const int depth = 2 + static_cast<int>(random() % 4);
    const int layer_count = depth + static_cast<int>(random() % 8);
    const bool alike = random() % 2 == 0;
    const auto m = static_cast<int64_t>(1 + random() % 24);
    std::vector<LeastLayerTimes> layers;
    for (int i = 0; i < layer_count; ++i) {
      if (alike && i > 0) {
        layers.push_back(layers.back());
        continue;
      }
      const double forward = time(random);
      const double inputs = time(random);
      const double weights = time(random);
      layers.push_back({forward, forward + inputs, weights, forward + inputs + weights,
                        random() % 2 == 0 ? time(random) : 0.0});
    }
    std::vector<int> cuts = {0, layer_count};
    while (static_cast<int>(cuts.size()) < depth + 1) {
      const int cut = 1 + static_cast<int>(random() % static_cast<uint64_t>(layer_count - 1));
      if (std::find(cuts.begin(), cuts.end(), cut) == cuts.end()) cuts.push_back(cut);
    }
    std::sort(cuts.begin(), cuts.end());
    std::vector<StageTimes> stages;
    for (int stage = 0; stage < depth; ++stage) {
      LeastLayerTimes sum;
      for (int layer = cuts[stage]; layer < cuts[stage + 1]; ++layer) {
        sum.forward += layers[layer].forward;
        sum.weights += layers[layer].weights;
        sum.work += layers[layer].work;
        sum.sync += layers[layer].sync;
      }
      stages.push_back(SplitStage(sum.forward, sum.work - sum.forward - sum.weights, sum.weights,
                                  0.2 * time(random) * static_cast<double>(random() % 2),
                                  sum.sync));
    }
    const double step = ZeroBubbleStep(stages, m);
    const ZeroBubbleBound bound(layers);
    const double least = bound.Of(depth, m, 1e30);
    EXPECT_LE(least, step * (1.0 + 1e-12)) << round;
    // With a cutoff it says the same, or that the cutoff is below it.
    EXPECT_LE(bound.Of(depth, m, 0.5 * step), 0.5 * step);
    closest = std::min(closest, step / least);
  }
  EXPECT_LT(closest, 1.001);
}

// Even stages of equal layers without messages. With f = b = w the way into the last stage and its
// work are the step; with b = 2 the way back is longer, of whose last weight pass the bound knows
// one layer of four.
TEST(ZeroBubbleBound, IsCloseToTheStepOfEvenStages) {
  const double step = ZeroBubbleStep(std::vector<StageTimes>(4, SplitStage(4, 4, 4)), 32);
  EXPECT_DOUBLE_EQ(step, 32 * 12 + 3 * 4);
  const std::vector<LeastLayerTimes> layers(16, {1, 2, 1, 3, 0});
  EXPECT_NEAR(ZeroBubbleBound(layers).Of(4, 32, 1e30), step, 1e-6);
  const double longer = ZeroBubbleStep(std::vector<StageTimes>(4, SplitStage(4, 8, 4)), 32);
  EXPECT_DOUBLE_EQ(longer, 32 * 16 + 3 * 8);
  const std::vector<LeastLayerTimes> slower(16, {1, 3, 1, 4, 0});
  EXPECT_NEAR(ZeroBubbleBound(slower).Of(4, 32, 1e30), longer - 3.0, 1e-6);
}

TEST(ZeroBubbleBound, IsInfiniteWithFewerLayersThanStages) {
  const std::vector<LeastLayerTimes> layers(3, {1, 2, 1, 3, 0});
  EXPECT_FALSE(Seconds::Of(ZeroBubbleBound(layers).Of(4, 8, 100.0)).is_finite());
}

}  // namespace
}  // namespace parplan
