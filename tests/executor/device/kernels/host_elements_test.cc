#include "executor/device/kernels/host_elements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

TEST(HostElements, Bfloat16RoundsToTheNearestAndTiesToEven) {
  // 1 has 8 bits after it: the step is 1/128.
  EXPECT_EQ(FromBfloat16(RoundToBfloat16(1.0f)), 1.0f);
  EXPECT_EQ(FromBfloat16(RoundToBfloat16(1.0f + 0.4f / 128)), 1.0f);
  EXPECT_EQ(FromBfloat16(RoundToBfloat16(1.0f + 0.6f / 128)), 1.0f + 1.0f / 128);
  EXPECT_EQ(FromBfloat16(RoundToBfloat16(1.0f + 0.5f / 128)), 1.0f);
  EXPECT_EQ(FromBfloat16(RoundToBfloat16(1.0f + 1.5f / 128)), 1.0f + 2.0f / 128);
  EXPECT_EQ(FromBfloat16(RoundToBfloat16(-3.0f)), -3.0f);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(FromBfloat16(RoundToBfloat16(infinity)), infinity);
  EXPECT_EQ(FromBfloat16(RoundToBfloat16(std::numeric_limits<float>::max())), infinity);
  EXPECT_TRUE(std::isnan(FromBfloat16(RoundToBfloat16(std::nanf("1")))));
  EXPECT_TRUE(
      std::isnan(FromBfloat16(RoundToBfloat16(std::numeric_limits<float>::signaling_NaN()))));
}

TEST(HostElements, ComeBackAsTheyWere) {
  const std::unique_ptr<LayerKernels> kernels = MakeCpuKernels(ElementType::kFloat64);
  const std::vector<double> values = {0.0, -1.5, 1024.0, 0.0078125};
  for (const ElementType type :
       {ElementType::kFloat64, ElementType::kFloat32, ElementType::kBfloat16}) {
    std::vector<char> data(values.size() * ElementSize(type));
    EXPECT_OK(WriteElements(*kernels, type, values, data.data()));
    EXPECT_THAT(ReadElements(*kernels, type, data.data(), 4), IsOkAndHolds(values));
  }
}

}  // namespace
}  // namespace parplan
