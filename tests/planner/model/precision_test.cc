#include "planner/model/precision.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace parplan {
namespace {

TEST(Precision, EveryPrecisionIsFoundByItsValueAndItsName) {
  ASSERT_EQ(KnownPrecisions().size(), kPrecisionCount);
  std::set<std::string> names;
  for (const PrecisionTraits& traits : KnownPrecisions()) {
    EXPECT_EQ(TraitsOf(traits.precision).name, traits.name);
    EXPECT_EQ(FindPrecision(traits.name), traits.precision);
    EXPECT_EQ(FindPrecisionIn(traits.name), traits.precision);
    names.insert(std::string(traits.name));
  }
  EXPECT_EQ(names.size(), kPrecisionCount);
  EXPECT_EQ(FindPrecision("fp8"), std::nullopt);
}

TEST(Precision, DescriptionsNameTheirPrecisionByAnyOfItsSpellings) {
  EXPECT_EQ(FindPrecisionIn("bfloat16 mixed"), Precision::kBf16);
  EXPECT_EQ(FindPrecisionIn("float16"), Precision::kFp16);
  EXPECT_EQ(FindPrecisionIn("bf16, fp32 gradients"), Precision::kBf16);
  EXPECT_EQ(FindPrecisionIn("tf32"), Precision::kFp32);
  EXPECT_EQ(FindPrecisionIn("half"), std::nullopt);
}

TEST(Precision, MixedRecipesStoreTwoBytesAndSumUpInFour) {
  for (const Precision precision : {Precision::kBf16, Precision::kFp16}) {
    const PrecisionTraits& formats = TraitsOf(precision);
    EXPECT_TRUE(formats.has_master_weights());
    EXPECT_EQ(BytesPerElement(precision), 2);
    EXPECT_EQ(BytesPerElement(formats.compute), 2);
    EXPECT_EQ(BytesPerElement(formats.communication), 2);
    EXPECT_EQ(BytesPerElement(formats.accumulation), 4);
  }
  EXPECT_FALSE(TraitsOf(Precision::kFp32).has_master_weights());
  EXPECT_EQ(BytesPerElement(Precision::kFp32), 4);
}

TEST(Precision, OnlyTheFormatWithFewExponentBitsScalesTheLoss) {
  EXPECT_TRUE(TraitsOf(Precision::kFp16).scales_loss);
  EXPECT_FALSE(TraitsOf(Precision::kBf16).scales_loss);
  EXPECT_FALSE(TraitsOf(Precision::kFp32).scales_loss);
}

// Fewer bits never take more bytes, and recipes differ in their operands only: weights, activations
// and messages lie in memory as those of bf16.
TEST(Precision, RecipesQuantiseTheOperandsOfBf16) {
  const PrecisionTraits& bf16 = TraitsOf(Precision::kBf16);
  int count = 0;
  for (const PrecisionTraits& traits : KnownPrecisions()) {
    if (!traits.quantisation.has_value()) {
      EXPECT_EQ(traits.products(), traits.compute) << traits.name;
      continue;
    }
    ++count;
    EXPECT_EQ(traits.storage, bf16.storage) << traits.name;
    EXPECT_EQ(traits.compute, bf16.compute) << traits.name;
    EXPECT_EQ(traits.accumulation, bf16.accumulation) << traits.name;
    EXPECT_EQ(traits.communication, bf16.communication) << traits.name;
    EXPECT_EQ(traits.products(), traits.quantisation->format) << traits.name;
    EXPECT_GE(traits.quantisation->operand_bytes, BytesPerElement(traits.products()));
    EXPECT_LT(traits.quantisation->operand_bytes, 2.0) << traits.name;
    EXPECT_GE(traits.quantisation->read_count, 1) << traits.name;
  }
  EXPECT_EQ(count, 6);
  EXPECT_LT(TraitsOf(Precision::kNvfp4).quantisation->operand_bytes,
            TraitsOf(Precision::kFp8Delayed).quantisation->operand_bytes);
}

// A byte for each element, and one for each block of 32; half a byte, and one for each block of 16.
TEST(Precision, OperandsIncludeTheirScales) {
  EXPECT_DOUBLE_EQ(TraitsOf(Precision::kMxfp8).quantisation->operand_bytes, 33.0 / 32.0);
  EXPECT_DOUBLE_EQ(TraitsOf(Precision::kNvfp4).quantisation->operand_bytes, 9.0 / 16.0);
  EXPECT_DOUBLE_EQ(TraitsOf(Precision::kFp8Blockwise).quantisation->operand_bytes, 132.0 / 128.0);
}

}  // namespace
}  // namespace parplan
