#include "executor/device/kernels/block_heap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(BlockHeap, TakesTheSmallestRangeThatHoldsAndJoinsNeighbours) {
  BlockHeap heap;
  EXPECT_EQ(heap.Take(1024), 0);
  EXPECT_EQ(heap.Take(0), 1024);
  EXPECT_EQ(heap.Take(500), 1280);
  EXPECT_EQ(heap.Take(257), 1792);
  EXPECT_EQ(heap.Take(1), 2304);
  EXPECT_EQ(heap.end(), 2560);
  heap.Give(0);
  heap.Give(1280);
  EXPECT_THAT(heap.free_ranges(), ElementsAre(Pair(0, 1024), Pair(1280, 1792)));
  // The smaller one, though it comes later.
  EXPECT_EQ(heap.Take(256), 1280);
  EXPECT_THAT(heap.free_ranges(), ElementsAre(Pair(0, 1024), Pair(1536, 1792)));
  heap.Give(1024);
  heap.Give(1280);
  EXPECT_THAT(heap.free_ranges(), ElementsAre(Pair(0, 1792)));
  EXPECT_EQ(heap.Take(1793), 2560);
  heap.Give(2304);
  heap.Give(2560);
  // A free range at the end is not part of the heap.
  EXPECT_EQ(heap.end(), 2304);
  heap.Give(1792);
  EXPECT_EQ(heap.end(), 0);
  EXPECT_THAT(heap.free_ranges(), IsEmpty());
}

// A heap that looks at every offset.
class SlowHeap {
 public:
  int64_t Take(int64_t size) {
    const int64_t rounded = std::max<int64_t>(256, (size + 255) / 256 * 256);
    int64_t best = -1;
    int64_t best_size = 0;
    int64_t end = 0;
    for (const auto& [begin, block_end] : blocks_) {
      const int64_t room = begin - end;
      if (room >= rounded && (best < 0 || room < best_size)) {
        best = end;
        best_size = room;
      }
      end = block_end;
    }
    if (best < 0) best = end;
    blocks_[best] = best + rounded;
    return best;
  }
  void Give(int64_t offset) { blocks_.erase(offset); }
  int64_t end() const { return blocks_.empty() ? 0 : blocks_.rbegin()->second; }

 private:
  std::map<int64_t, int64_t> blocks_;
};

TEST(BlockHeap, PlacesBlocksAsAHeapThatLooksAtEverything) {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    BlockHeap heap;
    SlowHeap slow;
    std::vector<int64_t> blocks;
    for (int k = 0; k < 2000; ++k) {
      if (!blocks.empty() && random() % 100 < 45) {
        std::swap(blocks[random() % blocks.size()], blocks.back());
        heap.Give(blocks.back());
        slow.Give(blocks.back());
        blocks.pop_back();
      } else {
        const int64_t size = random() % (random() % 4 == 0 ? 20000 : 700);
        blocks.push_back(heap.Take(size));
        ASSERT_EQ(blocks.back(), slow.Take(size));
      }
      ASSERT_EQ(heap.end(), slow.end());
    }
  }
}

TEST(BlockHeapDeathTest, AStrangeOffsetIsABug) {
  BlockHeap heap;
  heap.Take(1000);
  EXPECT_DEATH(heap.Give(256), "check failed");
}

}  // namespace
}  // namespace parplan
