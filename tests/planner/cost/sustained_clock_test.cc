#include "planner/cost/sustained_clock.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/planner/cost/hardware_of_tests.h"

namespace parplan {
namespace {

DeviceDescription Device(double flops, double watts) {
  DeviceDescription device = TestDevice();
  device.matrix_flops_16_bit = flops;
  device.power_limit_watts = watts;
  return device;
}

// An H100 of 500 W has 500 / 912.4 watts for each TFLOP/s where one of 700 W has 700 / 989.4:
// 0.5480 / 0.7075 = 0.7746, whose cube root is 0.9184. A B200 has 1000 / 2250: 0.6282, 0.8564.
TEST(SustainedClockShare, IsTheCubeRootOfThePowerForThePeak) {
  EXPECT_DOUBLE_EQ(SustainedClockShare(Device(989.4e12, 700.0)), 1.0);
  EXPECT_NEAR(SustainedClockShare(Device(912.4e12, 500.0)), 0.9184, 5e-5);
  EXPECT_NEAR(SustainedClockShare(Device(2250e12, 1000.0)), 0.8564, 5e-5);
}

TEST(SustainedClockShare, MorePowerIsNeverSlowerAndNeverAboveThePeak) {
  double last = 0.0;
  for (double watts = 50.0; watts < 3000.0; watts *= 1.2) {
    const double share = SustainedClockShare(Device(989.4e12, watts));
    EXPECT_GT(share, 0.0);
    EXPECT_GE(share, last);
    EXPECT_LE(share, 1.0);
    last = share;
  }
  EXPECT_EQ(last, 1.0);
}

TEST(SustainedClockShare, IsTheWholeClockIfNoLimitIsKnown) {
  EXPECT_EQ(SustainedClockShare(TestDevice()), 1.0);
}

}  // namespace
}  // namespace parplan
