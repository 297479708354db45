#include "base/units.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace parplan {
namespace {

TEST(Bytes, CountExactlyBeyondWhatADoubleHolds) {
  const Bytes large = Bytes::Of((int64_t{1} << 53) + 1);
  EXPECT_EQ((large + Bytes::Of(1)).count(), (int64_t{1} << 53) + 2);
  EXPECT_EQ((large * 3 - large - large).count(), large.count());
  EXPECT_LT(large, Bytes::Max());
}

TEST(Bytes, AreRoundedUp) {
  EXPECT_EQ(Bytes::Ceil(0.0), Bytes());
  EXPECT_EQ(Bytes::Ceil(0.001), Bytes::Of(1));
  EXPECT_EQ(Bytes::Ceil(7.0), Bytes::Of(7));
}

TEST(Bytes, MayBeNegativeWhileABudgetIsSpent) {
  Bytes budget = Bytes::Of(5);
  budget -= Bytes::Of(8);
  EXPECT_LT(budget, Bytes());
  budget += Bytes::Of(8);
  EXPECT_EQ(budget, Bytes::Of(5));
}

TEST(Seconds, ConvertFromAndToMilliseconds) {
  EXPECT_DOUBLE_EQ(Seconds::Milliseconds(1.5).value(), 0.0015);
  EXPECT_DOUBLE_EQ(Seconds::Of(0.25).milliseconds(), 250.0);
}

TEST(Seconds, AreAddedScaledAndCompared) {
  const Seconds step = Seconds::Of(1.0) + Seconds::Of(0.5) * 2.0 - Seconds::Of(0.5);
  EXPECT_EQ(step, Seconds::Of(1.5));
  EXPECT_EQ(2.0 * step, step / 0.5);
  EXPECT_DOUBLE_EQ(step / Seconds::Of(0.5), 3.0);
}

TEST(Seconds, InfinityIsAboveEveryTime) {
  EXPECT_FALSE(Seconds::Infinite().is_finite());
  EXPECT_TRUE(Seconds().is_finite());
  EXPECT_LT(Seconds::Of(std::numeric_limits<double>::max()), Seconds::Infinite());
}

}  // namespace
}  // namespace parplan
