#include "planner/cost/size_curve.h"

#include <gtest/gtest.h>

namespace parplan {
namespace {

SizeCurve Line() {
  // 1 ms + 2 ms per unit.
  return SizeCurve({{1.0, Seconds::Milliseconds(3)}, {4.0, Seconds::Milliseconds(9)}});
}

TEST(SizeCurve, GivesItsPointsBack) {
  EXPECT_DOUBLE_EQ(Line().At(1.0).milliseconds(), 3.0);
  EXPECT_DOUBLE_EQ(Line().At(4.0).milliseconds(), 9.0);
}

TEST(SizeCurve, DrawsAStraightLineBetweenPoints) {
  EXPECT_DOUBLE_EQ(Line().At(2.0).milliseconds(), 5.0);
}

TEST(SizeCurve, KeepsTheFixedCostBelowTheFirstPoint) {
  EXPECT_DOUBLE_EQ(Line().At(0.5).milliseconds(), 2.0);
}

TEST(SizeCurve, IsNeverFasterPerUnitThanItsFirstPointBelowIt) {
  // The line through the points meets zero at size 0.5.
  const SizeCurve steep({{1.0, Seconds::Milliseconds(1)}, {2.0, Seconds::Milliseconds(3)}});
  EXPECT_DOUBLE_EQ(steep.At(0.5).milliseconds(), 0.5);
}

TEST(SizeCurve, GrowsInProportionAboveTheLastPoint) {
  EXPECT_DOUBLE_EQ(Line().At(8.0).milliseconds(), 18.0);
}

TEST(SizeCurve, WithOnePointIsProportional) {
  const SizeCurve curve({{10.0, Seconds::Milliseconds(5)}});
  EXPECT_DOUBLE_EQ(curve.At(1.0).milliseconds(), 0.5);
  EXPECT_DOUBLE_EQ(curve.At(20.0).milliseconds(), 10.0);
}

TEST(SizeCurve, NothingTakesNoTime) { EXPECT_EQ(Line().At(0.0), Seconds()); }

TEST(SizeCurve, NeverFallsEvenWhenThePointsDo) {
  const SizeCurve noisy({{3.0, Seconds::Milliseconds(4)},
                         {1.0, Seconds::Milliseconds(5)},
                         {2.0, Seconds::Milliseconds(2)},
                         {4.0, Seconds::Milliseconds(6)}});
  Seconds last;
  for (double size = 0.0; size < 8.0; size += 0.125) {
    EXPECT_GE(noisy.At(size), last) << "at size " << size;
    last = noisy.At(size);
  }
}

}  // namespace
}  // namespace parplan
