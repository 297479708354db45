// What random Hadamard matrices and rounding by chance add to the kernels of NVFP4.

#include <gtest/gtest.h>

#include "planner/cost/layer_operations.h"
#include "planner/model/layer_precision.h"
#include "tests/planner/cost/hardware_of_tests.h"

namespace parplan {
namespace {

LayerOperations ListIn(Precision precision, bool frozen) {
  LayerDefinition layer = TestDecoder(1024, 8, 512);
  layer.frozen = frozen;
  LayerOperations operations;
  ListOperations(layer, precision, RuntimeTraits(), LayerShape(), 1.0, operations);
  return operations;
}

// Bytes, kernels and random numbers of all element-wise operations.
struct Sum {
  double bytes = 0.0;
  int kernel_count = 0;
  double random_count = 0.0;
};
Sum SumOf(const OperationList& list) {
  Sum sum;
  for (const LayerOperation& operation : list) {
    if (operation.kind != OperationKind::kElementwise) continue;
    sum.bytes += operation.bytes;
    sum.kernel_count += operation.kernel_count;
    sum.random_count += operation.random_count;
  }
  return sum;
}

// The maps of a decoder of width 1,024 with 512 tokens: 1,024 to 3,072, 1,024 to 1,024, 1,024 to
// 4,096 and 4,096 to 1,024. Their inputs are 512 x (3 x 1,024 + 4,096) = 3,670,016 elements, their
// outputs 512 x (3,072 + 1,024 + 4,096 + 1,024) = 4,718,592. Each is read three times in 16 bits
// (for the largest values, for one copy and, rotated, for the other) and written twice with 9/16 of
// a byte: 7.125 bytes an element, where MXFP8 reads it once and writes 33/32 bytes twice: 4.0625.
// One random number rounds four of the gradient's 2 x 4,718,592 values: 2,359,296 numbers.
TEST(RotatedQuantisation, IsThatOfTheWorkedExample) {
  const LayerOperations rotated = ListIn(Precision::kNvfp4, false);
  const LayerOperations plain = ListIn(Precision::kMxfp8, false);
  const Sum forward = SumOf(rotated.forward);
  const Sum plain_forward = SumOf(plain.forward);
  EXPECT_NEAR(forward.bytes - plain_forward.bytes, 3670016.0 * (7.125 - 4.0625), 1.0);
  EXPECT_EQ(forward.kernel_count - plain_forward.kernel_count, 4 * 2);
  EXPECT_EQ(forward.random_count, plain_forward.random_count);
  const Sum backward = SumOf(rotated.backward);
  const Sum plain_backward = SumOf(plain.backward);
  EXPECT_NEAR(backward.bytes - plain_backward.bytes, 4718592.0 * (7.125 - 4.0625), 1.0);
  EXPECT_EQ(backward.kernel_count - plain_backward.kernel_count, 4 * 2);
  EXPECT_DOUBLE_EQ(backward.random_count - plain_backward.random_count, 2359296.0);
}

TEST(RotatedQuantisation, IsNotDoneForFrozenWeightsOrOtherRecipes) {
  const LayerDefinition layer = TestDecoder(1024, 8, 512);
  for (const PrecisionTraits& traits : KnownPrecisions()) {
    EXPECT_EQ(IsRotated(layer, traits.precision), traits.precision == Precision::kNvfp4);
  }
  LayerDefinition frozen = layer;
  frozen.frozen = true;
  EXPECT_FALSE(IsRotated(frozen, Precision::kNvfp4));
  const Sum tuned = SumOf(ListIn(Precision::kNvfp4, true).backward);
  EXPECT_EQ(tuned.random_count, SumOf(ListIn(Precision::kMxfp8, true).backward).random_count);
  LayerDefinition wide = layer;
  wide.wide_products = true;
  EXPECT_FALSE(IsRotated(wide, Precision::kNvfp4));
}

}  // namespace
}  // namespace parplan
