#include "clients/device/backend/process_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace parplan {
namespace {

TEST(PrivateMemoryTest, CountsWhatTheProcessFills) {
  const Bytes before = PrivateMemory();
  EXPECT_GT(before, Bytes());
  constexpr int64_t kSize = int64_t{64} << 20;
  const std::vector<char> filled(kSize, 'x');
  EXPECT_GT(PrivateMemory(), before + Bytes::Of(kSize * 3 / 4)) << filled[kSize / 2];
}

}  // namespace
}  // namespace parplan
