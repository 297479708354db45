#include "executor/layer_probe/time_spread.h"

#include <gtest/gtest.h>

namespace parplan {
namespace {

std::vector<absl::Duration> Milliseconds(const std::vector<int>& values) {
  std::vector<absl::Duration> durations;
  for (const int value : values) durations.push_back(absl::Milliseconds(value));
  return durations;
}

TEST(SpreadOf, OfNothingIsZero) {
  const TimeSpread spread = SpreadOf({});
  EXPECT_EQ(spread.sample_count, 0);
  EXPECT_EQ(spread.median, absl::ZeroDuration());
}

TEST(SpreadOf, TakesTheMiddleAndItsTenths) {
  const TimeSpread odd = SpreadOf(Milliseconds({5, 1, 4, 2, 3}));
  EXPECT_EQ(odd.median, absl::Milliseconds(3));
  EXPECT_EQ(odd.p10, absl::Milliseconds(1));
  EXPECT_EQ(odd.p90, absl::Milliseconds(5));
  EXPECT_EQ(odd.sample_count, 5);
  EXPECT_EQ(SpreadOf(Milliseconds({4, 1, 2, 8})).median, absl::Milliseconds(3));
}

TEST(SpreadOf, IsNotMovedByAnOutlier) {
  EXPECT_EQ(SpreadOf(Milliseconds({3, 3, 3, 3, 9000})).median, absl::Milliseconds(3));
}

TEST(MedianUncertainty, FewSamplesSayNothing) {
  EXPECT_EQ(MedianUncertainty(Milliseconds({1, 1, 1, 1, 1})), absl::InfiniteDuration());
}

TEST(MedianUncertainty, EqualSamplesAreCertain) {
  EXPECT_EQ(MedianUncertainty(Milliseconds({7, 7, 7, 7, 7, 7})), absl::ZeroDuration());
}

TEST(MedianUncertainty, FallsWithTheNumberOfSamples) {
  std::vector<absl::Duration> few;
  std::vector<absl::Duration> many;
  for (int k = 0; k < 100; ++k) few.push_back(absl::Milliseconds(k));
  for (int k = 0; k < 10000; ++k) many.push_back(absl::Milliseconds(k) / 100);
  // For 100 samples, the 40th to the 60th.
  EXPECT_EQ(MedianUncertainty(few), absl::Milliseconds(10));
  EXPECT_LE(MedianUncertainty(many) * 9, MedianUncertainty(few));
}

}  // namespace
}  // namespace parplan
