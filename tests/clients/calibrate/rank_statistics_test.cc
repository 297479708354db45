#include "clients/calibrate/rank_statistics.h"

#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace parplan::accuracy {
namespace {

using ::testing::ElementsAre;

TEST(Ranks, SharesPlacesOfEqualValues) {
  EXPECT_THAT(Ranks({3.0, 1.0, 2.0}), ElementsAre(3.0, 1.0, 2.0));
  EXPECT_THAT(Ranks({5.0, 1.0, 5.0, 5.0}), ElementsAre(3.0, 1.0, 3.0, 3.0));
  EXPECT_THAT(Ranks({2.0, 2.0}), ElementsAre(1.5, 1.5));
}

TEST(RankCorrelation, IsOneForAnyGrowingFunctionAndMinusOneForAFallingOne) {
  const std::vector<double> values = {0.1, 7.0, 3.0, 2.0};
  std::vector<double> growing;
  std::vector<double> falling;
  for (const double value : values) {
    growing.push_back(value * value * value + 1.0);
    falling.push_back(1.0 / value);
  }
  EXPECT_DOUBLE_EQ(*RankCorrelation(values, growing), 1.0);
  EXPECT_DOUBLE_EQ(*RankCorrelation(values, falling), -1.0);
}

// 1 - 6 * sum of d^2 / (n (n^2 - 1)) where there are no ties: ranks 1 2 3 4 5 against
// 2 1 4 3 5 have d^2 adding up to 4.
TEST(RankCorrelation, FollowsTheTextbookFormula) {
  EXPECT_DOUBLE_EQ(*RankCorrelation({1.0, 2.0, 3.0, 4.0, 5.0}, {20.0, 10.0, 40.0, 30.0, 50.0}),
                   1.0 - 6.0 * 4.0 / (5.0 * 24.0));
}

// Ranks 1.5 1.5 3 against 1 2 3: covariance 1.5, variances 1.5 and 2.
TEST(RankCorrelation, CountsTiesWithTheirMeanRank) {
  EXPECT_DOUBLE_EQ(*RankCorrelation({1.0, 1.0, 2.0}, {1.0, 2.0, 3.0}), 1.5 / std::sqrt(3.0));
}

TEST(RankCorrelation, HasNothingToSayOfEqualValues) {
  EXPECT_FALSE(RankCorrelation({1.0, 1.0}, {1.0, 2.0}).has_value());
  EXPECT_FALSE(RankCorrelation({1.0}, {1.0}).has_value());
}

TEST(TopOneRegret, IsWhatThePredictedBestLoses) {
  EXPECT_NEAR(TopOneRegret({1.0, 2.0, 3.0}, {11.0, 10.0, 30.0}), 0.1, 1e-12);
  EXPECT_DOUBLE_EQ(TopOneRegret({2.0, 1.0, 3.0}, {11.0, 10.0, 30.0}), 0.0);
  // Tied predictions: either could have been chosen.
  EXPECT_DOUBLE_EQ(TopOneRegret({1.0, 1.0}, {10.0, 30.0}), 1.0);
}

TEST(Median, IsInTheMiddle) {
  EXPECT_DOUBLE_EQ(Median({3.0, 1.0, 2.0}), 2.0);
  EXPECT_DOUBLE_EQ(Median({4.0, 1.0, 2.0, 3.0}), 2.5);
}

}  // namespace
}  // namespace parplan::accuracy
