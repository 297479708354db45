#include "planner/search/stage/stage_balance.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/brute_force.h"

namespace parplan {
namespace {

using testing::ElementsAre;

TEST(EvenSplit, CountsTransformerLayersAndSpreadsTheRest) {
  const std::vector<char> ten(10, 1);
  EXPECT_THAT(EvenSplit(ten, 1), ElementsAre(10));
  EXPECT_THAT(EvenSplit(ten, 4), ElementsAre(2, 3, 3, 2));
  EXPECT_THAT(EvenSplit(ten, 3), ElementsAre(3, 4, 3));
  // An embedding, eight transformer layers, a head.
  std::vector<char> model(10, 1);
  model.front() = model.back() = 0;
  EXPECT_THAT(EvenSplit(model, 4), ElementsAre(3, 2, 2, 3));
  // A second embedding goes with the layers it feeds.
  EXPECT_THAT(EvenSplit(std::vector<char>{0, 1, 1, 0, 1, 1, 0}, 2), ElementsAre(3, 4));
  // More stages than transformer layers.
  EXPECT_THAT(EvenSplit(std::vector<char>{0, 1, 0}, 3), ElementsAre(1, 1, 1));
}

Seconds SlowestStage(const std::vector<Seconds>& times, const Partition& partition) {
  Seconds slowest;
  size_t layer = 0;
  for (int count : partition) {
    Seconds total;
    for (int index = 0; index < count; ++index) total += times[layer++];
    slowest = std::max(slowest, total);
  }
  return slowest;
}

TEST(TimeBalancedSplit, HasTheFastestSlowestStage) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const int layer_count = 1 + static_cast<int>(random() % 9);
    const int stage_count = 1 + static_cast<int>(random() % layer_count);
    std::vector<Seconds> times;
    for (int layer = 0; layer < layer_count; ++layer) {
      times.push_back(Seconds::Of(static_cast<double>(1 + random() % 20)));
    }
    const Partition even = EvenSplit(std::vector<char>(layer_count, 1), stage_count);
    const Partition found = TimeBalancedSplit(times, even);
    EXPECT_EQ(std::accumulate(found.begin(), found.end(), 0), layer_count);
    EXPECT_GT(*std::min_element(found.begin(), found.end()), 0);
    Seconds best = Seconds::Infinite();
    ForEachPartition(layer_count, stage_count, [&](const Partition& partition) {
      best = std::min(best, SlowestStage(times, partition));
    });
    EXPECT_DOUBLE_EQ(SlowestStage(times, found).value(), best.value());
  }
}

TEST(TimeBalancedSplit, StaysCloseToThePreferredPartition) {
  const std::vector<Seconds> times(8, Seconds::Of(1.0));
  EXPECT_THAT(TimeBalancedSplit(times, {3, 3, 2}), ElementsAre(3, 3, 2));
  EXPECT_THAT(TimeBalancedSplit(times, {2, 3, 3}), ElementsAre(2, 3, 3));
  EXPECT_THAT(TimeBalancedSplit(times, {6, 1, 1}), ElementsAre(3, 3, 2));
}

// Memory that shrinks from stage to stage, as under 1F1B.
LeastMemory RandomMemory(std::mt19937_64& random, int stage_count, int kind_count) {
  LeastMemory memory;
  memory.caps = {Bytes::Of(0), Bytes::Of(4), Bytes::Of(11)};
  std::vector<std::vector<int64_t>> states, activations;
  for (int kind = 0; kind < kind_count; ++kind) {
    states.emplace_back();
    activations.emplace_back();
    for (size_t cap = 0; cap < memory.caps.size(); ++cap) {
      states.back().push_back(static_cast<int64_t>(random() % 10));
      activations.back().push_back(static_cast<int64_t>(random() % 6));
    }
  }
  for (int stage = 0; stage < stage_count; ++stage) {
    auto of_stage = std::make_shared<LeastMemory::OfStage>();
    for (int kind = 0; kind < kind_count; ++kind) {
      of_stage->emplace_back();
      for (size_t cap = 0; cap < memory.caps.size(); ++cap) {
        const bool impossible = cap == 0 && kind == 1;
        of_stage->back().push_back(
            impossible
                ? Bytes::Max()
                : Bytes::Of(states[kind][cap] + (stage_count - stage) * activations[kind][cap]));
      }
    }
    memory.kept.push_back(std::move(of_stage));
  }
  return memory;
}

Bytes LargestStage(const std::vector<int>& kinds, const LeastMemory& memory,
                   const Partition& partition) {
  Bytes largest;
  int first = 0;
  for (size_t stage = 0; stage < partition.size(); ++stage) {
    Bytes least = Bytes::Max();
    for (size_t cap = 0; cap < memory.caps.size(); ++cap) {
      Bytes total = memory.caps[cap];
      bool possible = true;
      for (int layer = first; layer < first + partition[stage]; ++layer) {
        const Bytes kept = (*memory.kept[stage])[kinds[layer]][cap];
        possible = possible && kept < Bytes::Max();
        if (possible) total += kept;
      }
      if (possible) least = std::min(least, total);
    }
    largest = std::max(largest, least);
    first += partition[stage];
  }
  return largest;
}

TEST(MemoryBalancedSplit, HasTheSmallestLargestStage) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const int layer_count = 1 + static_cast<int>(random() % 9);
    const int stage_count = 1 + static_cast<int>(random() % layer_count);
    std::vector<int> kinds;
    for (int layer = 0; layer < layer_count; ++layer) {
      kinds.push_back(static_cast<int>(random() % 3));
    }
    const LeastMemory memory = RandomMemory(random, stage_count, 3);
    const Partition even = EvenSplit(std::vector<char>(layer_count, 1), stage_count);
    const auto found = MemoryBalancedSplit(kinds, memory, even);
    ASSERT_TRUE(found.has_value());
    Bytes best = Bytes::Max();
    ForEachPartition(layer_count, stage_count, [&](const Partition& partition) {
      best = std::min(best, LargestStage(kinds, memory, partition));
    });
    EXPECT_EQ(found->largest_stage, best);
    EXPECT_EQ(LargestStage(kinds, memory, found->layer_counts), best);
    EXPECT_FALSE(MemoryLimitedSplit(kinds, memory, best - Bytes::Of(1), even).has_value());
    const Bytes looser = best + Bytes::Of(10);
    const auto limited = MemoryLimitedSplit(kinds, memory, looser, even);
    ASSERT_TRUE(limited.has_value());
    EXPECT_LE(LargestStage(kinds, memory, *limited), looser);
  }
}

}  // namespace
}  // namespace parplan
