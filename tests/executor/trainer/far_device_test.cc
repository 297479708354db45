// The trainer touches a device's memory by kernels, groups and copies alone: where it cannot do
// else, it gets the very same numbers.

#include <gtest/gtest.h>

#include "tests/executor/trainer/device_plans.h"
#include "tests/executor/trainer/device_run.h"

namespace parplan {
namespace {

class FarDevice : public testing::TestWithParam<int> {};

TEST_P(FarDevice, TrainsAsTheNearOne) {
  const DevicePlan each = DevicePlans()[GetParam()];
  for (const ElementType type : {ElementType::kFloat64, ElementType::kFloat32}) {
    const DeviceRun near = RunOnDevices(each.plan, each.model, AdamSettings{},
                                        [&](int) { return MakeNearDevice(type); });
    const DeviceRun far = RunOnDevices(each.plan, each.model, AdamSettings{},
                                       [&](int) { return MakeFarDevice(type); });
    ASSERT_EQ(near.losses.size(), 3u);
    EXPECT_EQ(far.losses, near.losses);
    EXPECT_EQ(far.parameters, near.parameters);
    EXPECT_LT(near.losses.back(), near.losses.front());
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, FarDevice,
                         testing::Range(0, static_cast<int>(DevicePlans().size())),
                         [](const auto& info) { return DevicePlans()[info.param].name; });

}  // namespace
}  // namespace parplan
