#include "base/normal_score.h"

#include <gtest/gtest.h>

namespace parplan {
namespace {

TEST(NormalScore, IsTheInverseOfTheNormalDistribution) {
  EXPECT_NEAR(NormalScore(0.5), 0.0, 1e-14);
  EXPECT_NEAR(NormalScore(0.05), -1.6448536269514722, 1e-12);
  EXPECT_NEAR(NormalScore(0.995), 2.5758293035489004, 1e-12);
  EXPECT_NEAR(NormalScore(1e-9), -5.9978070150076874, 1e-10);
}

TEST(NormalScore, IsSymmetricAndRises) {
  double before = NormalScore(1e-15);
  for (double probability = 1e-6; probability < 1.0; probability += 0.01) {
    const double score = NormalScore(probability);
    EXPECT_GT(score, before) << probability;
    EXPECT_NEAR(NormalScore(1.0 - probability), -score, 1e-9) << probability;
    before = score;
  }
}

// 1 minus the largest probability is rounded to less than the smallest one.
TEST(NormalScore, TakesBothEndsOfItsRange) {
  EXPECT_NEAR(NormalScore(1e-15), -7.941, 0.001);
  EXPECT_NEAR(NormalScore(1.0 - 1e-15), 7.941, 0.01);
}

TEST(NormalScoreDeathTest, RefusesZeroAndOne) {
  EXPECT_DEATH(NormalScore(0.0), "check failed: probability");
  EXPECT_DEATH(NormalScore(1.0), "check failed: probability");
}

}  // namespace
}  // namespace parplan
