#include "planner/cost/memory_overheads.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace parplan {
namespace {

MemoryOverheads Typical() {
  MemoryOverheads overheads;
  overheads.context = Bytes::Of(1'000'000'007);
  overheads.communicator = Bytes::Of(150'000'001);
  overheads.workspace = Bytes::Of(33'000'001);
  overheads.fragmentation = 0.0437;
  overheads.upper_factor = 1.0831;
  return overheads;
}

TEST(MemoryOverheads, AddUpToTheDevice) {
  MemoryOverheads overheads;
  overheads.context = Bytes::Of(100);
  overheads.communicator = Bytes::Of(10);
  overheads.workspace = Bytes::Of(1);
  overheads.fragmentation = 0.5;
  EXPECT_EQ(overheads.DeviceMemory(Bytes::Of(1000), 1, 1), Bytes::Of(1601));
  const int most = MemoryOverheads::MaxCommunicatorCount(2, 4);
  EXPECT_GE(most, 4);
  EXPECT_EQ(overheads.DeviceMemory(Bytes::Of(1000), 2, 4), Bytes::Of(1601 + 10 * most));
  EXPECT_EQ(overheads.DeviceMemory(Bytes::Of(1000), 2, 4, 2), Bytes::Of(1601 + 10 * most));
  EXPECT_EQ(overheads.DeviceMemory(Bytes::Of(1000), 2, 4, most + 2),
            Bytes::Of(1601 + 10 * (most + 2)));
}

TEST(MemoryOverheads, BudgetIsTheMostThatFits) {
  const MemoryOverheads overheads = Typical();
  for (int64_t usable = 3'000'000'000; usable < 200'000'000'000; usable = usable * 13 / 10 + 7) {
    for (const int depth : {1, 4}) {
      const Bytes budget = overheads.TensorBudget(Bytes::Of(usable), depth, 8);
      ASSERT_GE(budget, Bytes());
      EXPECT_LE(overheads.Upper(overheads.DeviceMemory(budget, depth, 8)), Bytes::Of(usable));
      EXPECT_GT(overheads.Upper(overheads.DeviceMemory(budget + Bytes::Of(1), depth, 8)),
                Bytes::Of(usable));
    }
  }
}

TEST(MemoryOverheads, BudgetIsNegativeWhereNothingFits) {
  EXPECT_LT(Typical().TensorBudget(Bytes::Of(900'000'000), 1, 1), Bytes());
  MemoryOverheads nothing;
  EXPECT_EQ(nothing.TensorBudget(Bytes(), 1, 1), Bytes());
  EXPECT_EQ(nothing.TensorBudget(Bytes::Of(5), 1, 1), Bytes::Of(5));
}

}  // namespace
}  // namespace parplan
