#include "planner/cost/optimizer_step.h"

#include "gtest/gtest.h"
#include "tests/planner/cost/hardware_of_tests.h"

namespace parplan {
namespace {

double Seconds16(ShardingLevel level, int degree, const RuntimeTraits& runtime = {}) {
  return OptimizerStepTime(1e9, level, degree, Precision::kBf16, Optimizer::kAdam, runtime,
                           TestDevice(), Coefficients())
      .value();
}

TEST(OptimizerStep, CountsWhatAdamReadsAndWrites) {
  RuntimeTraits runtime;
  runtime.gradient_bytes = 4;
  // Norm and clipping 12, Adam 28, zeroing 4.
  EXPECT_EQ(OptimizerBytesPerParameter(Precision::kFp32, Optimizer::kAdam, runtime), 44.0);
  // The 16-bit copy 6 more; unscaling 8 more with fp16.
  EXPECT_EQ(OptimizerBytesPerParameter(Precision::kBf16, Optimizer::kAdam, runtime), 50.0);
  EXPECT_EQ(OptimizerBytesPerParameter(Precision::kFp16, Optimizer::kAdam, runtime), 58.0);
  // 16-bit gradients are widened first, and two bytes less are zeroed.
  runtime.gradient_bytes = 2;
  EXPECT_EQ(OptimizerBytesPerParameter(Precision::kBf16, Optimizer::kAdam, runtime), 54.0);
  EXPECT_LT(OptimizerBytesPerParameter(Precision::kBf16, Optimizer::kSgd, runtime),
            OptimizerBytesPerParameter(Precision::kBf16, Optimizer::kAdam, runtime));
}

TEST(OptimizerStep, OperationByOperationMovesTensorsAgain) {
  RuntimeTraits runtime;
  runtime.gradient_bytes = 4;
  runtime.fused_optimizer = false;
  // 80 instead of 28.
  EXPECT_EQ(OptimizerBytesPerParameter(Precision::kFp32, Optimizer::kAdam, runtime), 96.0);
}

TEST(OptimizerStep, NarrowMomentsMoveFewerBytes) {
  RuntimeTraits runtime;
  runtime.gradient_bytes = 4;
  runtime.moment_bytes = 2;
  // Two moments, each read and written with two bytes less.
  EXPECT_EQ(OptimizerBytesPerParameter(Precision::kFp32, Optimizer::kAdam, runtime), 44.0 - 8.0);
  // Scaled and added to, two each, and the second read once more for its root.
  runtime.fused_optimizer = false;
  EXPECT_EQ(OptimizerBytesPerParameter(Precision::kFp32, Optimizer::kAdam, runtime), 96.0 - 18.0);
  // Without moments nothing changes.
  const double sgd = OptimizerBytesPerParameter(Precision::kBf16, Optimizer::kSgd, runtime);
  runtime.moment_bytes = 4;
  EXPECT_EQ(OptimizerBytesPerParameter(Precision::kBf16, Optimizer::kSgd, runtime), sgd);
}

TEST(OptimizerStep, TakesTheBytesOverTheBandwidth) {
  EXPECT_DOUBLE_EQ(
      Seconds16(ShardingLevel::kNone, 8),
      1e9 * OptimizerBytesPerParameter(Precision::kBf16, Optimizer::kAdam, RuntimeTraits()) /
          (2.039e12 * Coefficients()[Coefficient::kMemoryEfficiency]));
}

TEST(OptimizerStep, ShardsUpdateTheirPart) {
  for (const ShardingLevel level :
       {ShardingLevel::kOptimizer, ShardingLevel::kGradients, ShardingLevel::kParameters}) {
    EXPECT_DOUBLE_EQ(8.0 * Seconds16(level, 8), Seconds16(ShardingLevel::kNone, 8));
  }
}

TEST(OptimizerStep, MoreBandwidthIsNeverSlower) {
  DeviceDescription device = TestDevice();
  device.memory_bytes_per_second *= 2.0;
  EXPECT_LT(OptimizerStepTime(1e9, ShardingLevel::kNone, 1, Precision::kFp16, Optimizer::kAdam,
                              RuntimeTraits(), device, Coefficients()),
            OptimizerStepTime(1e9, ShardingLevel::kNone, 1, Precision::kFp16, Optimizer::kAdam,
                              RuntimeTraits(), TestDevice(), Coefficients()));
}

}  // namespace
}  // namespace parplan
