#include "executor/exec/gradient_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/device/kernels/host_elements.h"

namespace parplan {
namespace {

// The limit is that of the arithmetic.
TEST(GradientSums, SumsInBf16StopGrowingAtTheLimit) {
  float sum = 0.0f;
  for (int64_t term = 0; term < 2 * kMostBf16Terms; ++term) {
    sum = FromBfloat16(RoundToBfloat16(sum + 1.0f));
  }
  EXPECT_EQ(sum, static_cast<float>(kMostBf16Terms));
}

TEST(GradientSums, MoreMicroBatchesThanTheLimitAreWarnedOfInBf16Alone) {
  EXPECT_EQ(GradientSumWarning(Precision::kBf16, 256), "");
  EXPECT_EQ(GradientSumWarning(Precision::kFp32, 257), "");
  EXPECT_THAT(GradientSumWarning(Precision::kBf16, 257),
              testing::AllOf(testing::HasSubstr("257 micro-batches"), testing::HasSubstr("fp32")));
}

}  // namespace
}  // namespace parplan
