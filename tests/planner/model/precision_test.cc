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

}  // namespace
}  // namespace parplan
