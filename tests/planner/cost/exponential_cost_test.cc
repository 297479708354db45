#include "planner/cost/exponential_cost.h"

#include <gtest/gtest.h>

#include "tests/planner/cost/hardware_of_tests.h"

namespace parplan {
namespace {

ExponentialCost CostOn(const char* family, double flops_16_bit, double flops_4_bit) {
  DeviceDescription device = TestDevice();
  device.device_family = family;
  device.matrix_flops_16_bit = flops_16_bit;
  device.matrix_flops_4_bit = flops_4_bit;
  return ExponentialCostOf(device);
}

const ExponentialCost kHopper = CostOn("hopper", 989.4e12, 0.0);
const ExponentialCost kBlackwell = CostOn("blackwell", 2250e12, 9000e12);
const ExponentialCost kUltra = CostOn("blackwell", 2250e12, 13500e12);

// Heads of 64 on Hopper: (1 + 20 / 64) / (1 + 20 / 128) = 1.3125 / 1.15625 = 1.1351; on Blackwell
// (1 + 40 / 64) / (1 + 40 / 128) = 1.625 / 1.3125 = 1.2381. Heads of 128 on Blackwell Ultra:
// 1.15625 / 1.3125 = 0.8810; heads of 160, the mean of DeepSeek-V3's 192 and 128: 1.125 / 1.3125 =
// 0.8571 where Blackwell takes 1.25 / 1.3125 = 0.9524.
TEST(ExponentialCost, IsThatOfTheWorkedExample) {
  EXPECT_NEAR(kHopper.Slowdown(64.0), 1.1351, 5e-5);
  EXPECT_DOUBLE_EQ(kHopper.Slowdown(128.0), 1.0);
  EXPECT_NEAR(kBlackwell.Slowdown(64.0), 1.2381, 5e-5);
  EXPECT_DOUBLE_EQ(kBlackwell.Slowdown(128.0), 1.0);
  EXPECT_NEAR(kUltra.Slowdown(128.0), 0.8810, 5e-5);
  EXPECT_NEAR(kUltra.Slowdown(160.0), 0.8571, 5e-5);
  EXPECT_NEAR(kBlackwell.Slowdown(160.0), 0.9524, 5e-5);
}

TEST(ExponentialCost, LongerHeadsAndMoreUnitsAreNeverSlower) {
  for (double head = 1.0; head < 1024.0; head *= 1.3) {
    for (const ExponentialCost& cost : {kHopper, kBlackwell, kUltra}) {
      EXPECT_GT(cost.Slowdown(head), cost.Slowdown(1.3 * head));
      EXPECT_GT(cost.Slowdown(head), 0.0);
    }
    EXPECT_LT(kUltra.Slowdown(head), kBlackwell.Slowdown(head));
    // At most twice as fast: half of the exponentials' time is left, and all of the products'.
    EXPECT_GT(2.0 * kUltra.Slowdown(head), kBlackwell.Slowdown(head));
  }
}

TEST(ExponentialCost, IsTheUsualOneOfOtherFamilies) {
  const ExponentialCost other = CostOn("cdna4", 2300e12, 20e15);
  EXPECT_EQ(other.here, ExponentialCost::kUsual);
  EXPECT_EQ(other.usual, ExponentialCost::kUsual);
}

}  // namespace
}  // namespace parplan
