#include "planner/planners/galvatron/bi_objective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "planner/search/stage/greedy_split.h"

namespace parplan {
namespace {

// Layers with a time and a memory each; a stage is their sum, its memory times the
// micro-batches it keeps.
struct Layers {
  std::vector<double> times;
  std::vector<int64_t> memory;
  int stage_count = 2;
  Bytes budget;

  // The memory of the fullest stage, whatever the budget.
  Bytes Memory(const Partition& partition) const {
    Layers endless = *this;
    endless.budget = Bytes::Max();
    const std::vector<Bytes> peaks = endless.Figures(partition)->peaks;
    return *std::max_element(peaks.begin(), peaks.end());
  }

  std::optional<StageFigures> Figures(const Partition& partition) const {
    StageFigures figures;
    int layer = 0;
    for (size_t stage = 0; stage < partition.size(); ++stage) {
      Seconds time;
      int64_t memory_sum = 0;
      for (int count = 0; count < partition[stage]; ++count, ++layer) {
        time += Seconds::Of(times[layer]);
        memory_sum += memory[layer];
      }
      figures.times.push_back(time);
      figures.peaks.push_back(Bytes::Of(memory_sum * (stage_count - static_cast<int64_t>(stage))));
    }
    const Bytes most = *std::max_element(figures.peaks.begin(), figures.peaks.end());
    if (most > budget) return std::nullopt;
    return figures;
  }
};

Seconds Slowest(const StageFigures& figures) {
  return *std::max_element(figures.times.begin(), figures.times.end());
}

Bytes Fullest(const StageFigures& figures) {
  return *std::max_element(figures.peaks.begin(), figures.peaks.end());
}

std::vector<Partition> AllPartitions(int layer_count, int stage_count) {
  if (stage_count == 1) return {{layer_count}};
  std::vector<Partition> all;
  for (int first = 1; first <= layer_count - stage_count + 1; ++first) {
    for (Partition& rest : AllPartitions(layer_count - first, stage_count - 1)) {
      rest.insert(rest.begin(), first);
      all.push_back(rest);
    }
  }
  return all;
}

Layers RandomLayers(std::mt19937_64& random) {
  Layers layers;
  layers.stage_count = 2 + static_cast<int>(random() % 3);
  const int layer_count = layers.stage_count + static_cast<int>(random() % 8);
  for (int layer = 0; layer < layer_count; ++layer) {
    layers.times.push_back(1.0 + static_cast<double>(random() % 8));
    layers.memory.push_back(1 + static_cast<int64_t>(random() % 8));
  }
  layers.budget = Bytes::Of(1000);
  return layers;
}

// The partition of least `value` of its fullest or slowest stage, the first of equals.
template <typename Value>
Partition Best(const Layers& layers, Value value) {
  const std::vector<Partition> all =
      AllPartitions(static_cast<int>(layers.times.size()), layers.stage_count);
  return *std::min_element(all.begin(), all.end(), [&](const Partition& a, const Partition& b) {
    return value(*layers.Figures(a)) < value(*layers.Figures(b));
  });
}

// The result of the rules of papers.md 2.4 and 2.6, found by examining every partition repeatedly.
std::set<Partition> Reachable(const Layers& layers, const Partition& start, Bytes most_memory) {
  std::set<Partition> reached;
  if (layers.Figures(start)) reached.insert(start);
  const std::vector<Partition> all =
      AllPartitions(static_cast<int>(layers.times.size()), layers.stage_count);
  for (bool grows = true; grows;) {
    grows = false;
    for (const Partition& to : all) {
      const std::optional<StageFigures> figures = layers.Figures(to);
      if (reached.count(to) > 0 || !figures || Fullest(*figures) > most_memory) continue;
      for (const Partition& from : std::set<Partition>(reached)) {
        const StageFigures before = *layers.Figures(from);
        const size_t slowest =
            std::max_element(before.times.begin(), before.times.end()) - before.times.begin();
        bool is_move = Slowest(*figures) <= Slowest(before) && to[slowest] == from[slowest] - 1;
        int changed = 0;
        for (size_t stage = 0; stage < to.size(); ++stage) {
          if (to[stage] == from[stage]) continue;
          ++changed;
          const size_t distance = stage > slowest ? stage - slowest : slowest - stage;
          if (distance > 1) is_move = false;
        }
        if (!is_move || changed != 2) continue;
        grows |= reached.insert(to).second;
        break;
      }
    }
  }
  return reached;
}

TEST(AdjustPartitions, ReachesWhatTheThreeRulesReach) {
  int adjusted = 0, best_reached = 0, count = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    Layers layers = RandomLayers(random);
    const Partition by_memory = Best(layers, Fullest);
    const Partition by_time = Best(layers, Slowest);
    const Bytes most_memory = Fullest(*layers.Figures(by_time));
    // Sometimes the budget is below what balanced time needs.
    if (seed % 3 == 0) {
      const Bytes least = Fullest(*layers.Figures(by_memory));
      layers.budget = Bytes::Of((least.count() + most_memory.count()) / 2);
    }
    const std::set<Partition> expected = Reachable(layers, by_memory, most_memory);
    std::set<Partition> visited;
    Seconds best = Seconds::Infinite();
    int step_count = 0;
    bool had_end = by_memory == by_time;
    AdjustPartitions(
        by_memory, by_time, [&](const Partition& partition) { return layers.Memory(partition); },
        [&](const Partition& partition) { return layers.Figures(partition); },
        [&](const AdjustmentStep& step) {
          EXPECT_EQ(step.verdict == PartitionVerdict::kStart, step_count == 0);
          EXPECT_LT(step.parent, step_count);
          ++step_count;
          EXPECT_EQ(step.figures.has_value(), layers.Figures(step.partition).has_value());
          if (step.verdict == PartitionVerdict::kEnd) {
            EXPECT_FALSE(had_end);
            EXPECT_EQ(step.partition, by_time);
            had_end = true;
            return true;
          }
          const bool is_joined =
              step.verdict == PartitionVerdict::kStart || step.verdict == PartitionVerdict::kJoined;
          if (!is_joined || !step.figures) return true;
          if (visited.empty()) {
            EXPECT_EQ(step.partition, by_memory);
          }
          EXPECT_TRUE(visited.insert(step.partition).second);
          best = std::min(best, Slowest(*step.figures));
          return true;
        });
    EXPECT_TRUE(had_end);
    // A partition that is refused from one side is not tried again from another, which
    // the rules would allow where that one is slower.
    EXPECT_TRUE(std::includes(expected.begin(), expected.end(), visited.begin(), visited.end()));
    EXPECT_LE(best, Slowest(*layers.Figures(by_memory)));
    ++count;
    if (best < Slowest(*layers.Figures(by_memory))) ++adjusted;
    Seconds possible = Seconds::Infinite();
    for (const Partition& each : expected) {
      possible = std::min(possible, Slowest(*layers.Figures(each)));
    }
    if (best == possible) ++best_reached;
  }
  std::printf("%d of %d faster than balanced memory, %d as fast as any the rules reach\n", adjusted,
              count, best_reached);
  EXPECT_GT(adjusted, 40);
  EXPECT_EQ(best_reached, count);
}

// Two stages of six equal layers; the first keeps two micro-batches, so balanced memory is
// 2 + 4 layers and balanced time 3 + 3.
TEST(AdjustPartitions, GoesFromBalancedMemoryToBalancedTimeByHand) {
  const Layers layers = {.times = std::vector<double>(6, 1.0),
                         .memory = std::vector<int64_t>(6, 10),
                         .stage_count = 2,
                         .budget = Bytes::Of(1000)};
  using Verdict = PartitionVerdict;
  using Steps = std::vector<std::pair<Partition, Verdict>>;
  const auto steps_of = [](const Layers& each, std::vector<BalanceDegrees>* degrees) {
    Steps steps;
    AdjustPartitions(
        {2, 4}, {3, 3}, [&](const Partition& partition) { return each.Memory(partition); },
        [&](const Partition& partition) { return each.Figures(partition); },
        [&](const AdjustmentStep& step) {
          steps.emplace_back(step.partition, step.verdict);
          if (degrees != nullptr) degrees->push_back(DegreesOf(*step.figures));
          return true;
        });
    return steps;
  };
  std::vector<BalanceDegrees> degrees;
  EXPECT_EQ(
      steps_of(layers, &degrees),
      (Steps{{{2, 4}, Verdict::kStart}, {{3, 3}, Verdict::kEnd}, {{3, 3}, Verdict::kJoined}}));
  EXPECT_DOUBLE_EQ(degrees[0].time, 1.0 - 4.0 / 6.0);
  EXPECT_DOUBLE_EQ(degrees[1].time, 0.5);
  EXPECT_DOUBLE_EQ(degrees[0].memory, 0.5);
  EXPECT_DOUBLE_EQ(degrees[1].memory, 1.0 - 60.0 / 90.0);
  // With a budget below 60 the second test keeps the start.
  Layers tight = layers;
  tight.budget = Bytes::Of(50);
  EXPECT_EQ(
      steps_of(tight, nullptr),
      (Steps{{{2, 4}, Verdict::kStart}, {{3, 3}, Verdict::kEnd}, {{3, 3}, Verdict::kDoesNotFit}}));
}

TEST(AdjustPartitions, ReturnsWhyItEnded) {
  const auto end_of = [](int layer_count, int stage_count, int64_t most_steps) {
    const Layers layers = {.times = std::vector<double>(layer_count, 1.0),
                           .memory = std::vector<int64_t>(layer_count, 1),
                           .stage_count = stage_count,
                           .budget = Bytes::Of(int64_t{1} << 40)};
    Partition start(stage_count, 1);
    start[stage_count / 2] = layer_count - stage_count + 1;
    int64_t step_count = 0;
    return AdjustPartitions(
        start, start, [](const Partition&) { return Bytes(); },
        [&](const Partition& partition) { return layers.Figures(partition); },
        [&](const AdjustmentStep&) { return ++step_count < most_steps; });
  };
  // The slowest stage of every partition has one layer.
  EXPECT_EQ(end_of(3, 3, 1 << 20), WalkEnd::kNothingLeft);
  EXPECT_EQ(end_of(6, 2, 1 << 20), WalkEnd::kNothingLeft);
  EXPECT_EQ(end_of(6, 2, 2), WalkEnd::kStopped);
  // A stage in the middle gives up to a third of 300 layers to each side, in any order.
  EXPECT_EQ(end_of(300, 3, 1 << 20), WalkEnd::kMostPartitions);
}

// Six layers as fast as each other, of which the fifth holds five times as much as the others.
// Balanced time, 2 + 2 + 2 layers, needs 6 on the first and on the last stage.
TEST(AdjustPartitions, RefusesMoreMemoryThanBalancedTimeNeedsByHand) {
  const Layers layers = {.times = std::vector<double>(6, 1.0),
                         .memory = {1, 1, 1, 1, 5, 1},
                         .stage_count = 3,
                         .budget = Bytes::Of(1000)};
  using Verdict = PartitionVerdict;
  std::vector<std::pair<Partition, Verdict>> steps;
  AdjustPartitions(
      {1, 4, 1}, {2, 2, 2}, [&](const Partition& partition) { return layers.Memory(partition); },
      [&](const Partition& partition) { return layers.Figures(partition); },
      [&](const AdjustmentStep& step) {
        steps.emplace_back(step.partition, step.verdict);
        return true;
      });
  EXPECT_EQ(steps, (std::vector<std::pair<Partition, Verdict>>{
                       {{1, 4, 1}, Verdict::kStart},
                       {{2, 2, 2}, Verdict::kEnd},
                       {{2, 3, 1}, Verdict::kTooFull},  // 7 in the second stage, twice
                       {{1, 3, 2}, Verdict::kJoined},
                       {{2, 2, 2}, Verdict::kJoined},
                       {{1, 2, 3}, Verdict::kTooFull}}));  // 7 in the last stage
}

// 12 layers of 10, 4 stages: the mean is 30. With 40 shared it is 40, and the first stage
// gets nothing of its own, so it takes a layer of the next.
TEST(GreedyMemorySplit, FillsFromBehindByHand) {
  const std::vector<double> layers(12, 10.0);
  EXPECT_EQ(GreedyMemorySplit(layers, 0.0, 4), (Partition{3, 3, 3, 3}));
  EXPECT_EQ(GreedyMemorySplit(layers, 40.0, 4), (Partition{1, 3, 4, 4}));
  // Half of the next layer must stay below the mean: 30 + 12 / 2 > 35.
  EXPECT_EQ(GreedyMemorySplit(std::vector<double>{12, 12, 12, 10, 12, 12}, 0.0, 2),
            (Partition{3, 3}));
  // The first stage gets 40 with a mean of 30 and hands on what makes it more than 39; not so in
  // 2022.
  const std::vector<double> uneven = {10, 30, 20};
  EXPECT_EQ(GreedyMemorySplit(uneven, 0.0, 2), (Partition{1, 2}));
  EXPECT_EQ(GreedyMemorySplit(uneven, 0.0, 2, std::numeric_limits<double>::infinity()),
            (Partition{2, 1}));
}

}  // namespace
}  // namespace parplan
