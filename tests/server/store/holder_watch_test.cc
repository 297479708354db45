#include "server/store/holder_watch.h"

#include <gtest/gtest.h>

namespace parplan {
namespace {

constexpr absl::Duration kWatchBegin = absl::Hours(3);
constexpr absl::Duration kLongestSilence = absl::Seconds(20);

TEST(HolderWatch, AHolderThatSaysNothingIsSilentAfterTheLimit) {
  HolderWatch watch(kLongestSilence);
  watch.Begin("a", kWatchBegin);
  EXPECT_FALSE(watch.IsSilent("a", kWatchBegin + absl::Seconds(19)));
  EXPECT_TRUE(watch.IsSilent("a", kWatchBegin + kLongestSilence));
}

// A search may take as long as it is allowed, as long as its server lives.
TEST(HolderWatch, EverySignGivesTheWholeTimeAgain) {
  HolderWatch watch(kLongestSilence);
  watch.Begin("a", kWatchBegin);
  absl::Duration now = kWatchBegin;
  for (int sign = 0; sign < 200; ++sign) {
    now += absl::Seconds(5);
    EXPECT_FALSE(watch.IsSilent("a", now));
    watch.Heard("a", now);
  }
  EXPECT_FALSE(watch.IsSilent("a", now + absl::Seconds(19)));
  EXPECT_TRUE(watch.IsSilent("a", now + kLongestSilence));
}

TEST(HolderWatch, BeginningTwiceForgivesNoSilence) {
  HolderWatch watch(kLongestSilence);
  watch.Begin("a", kWatchBegin);
  watch.Begin("a", kWatchBegin + absl::Seconds(15));
  EXPECT_TRUE(watch.IsSilent("a", kWatchBegin + kLongestSilence));
}

TEST(HolderWatch, KeysAreWatchedEachForItselfAndOnlyOnceBegun) {
  HolderWatch watch(kLongestSilence);
  watch.Begin("a", kWatchBegin);
  watch.Begin("b", kWatchBegin);
  watch.Heard("b", kWatchBegin + absl::Seconds(10));
  watch.Heard("c", kWatchBegin);
  EXPECT_TRUE(watch.IsSilent("a", kWatchBegin + kLongestSilence));
  EXPECT_FALSE(watch.IsSilent("b", kWatchBegin + kLongestSilence));
  EXPECT_FALSE(watch.IsSilent("c", kWatchBegin + absl::Hours(1)));
  watch.End("a");
  EXPECT_FALSE(watch.IsSilent("a", kWatchBegin + absl::Hours(1)));
  watch.EndAll();
  EXPECT_FALSE(watch.IsSilent("b", kWatchBegin + absl::Hours(1)));
}

}  // namespace
}  // namespace parplan
