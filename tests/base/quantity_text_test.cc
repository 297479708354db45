#include "base/quantity_text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace parplan {
namespace {

TEST(ThreeDigits, KeepsAllDigitsBeforeThePoint) {
  EXPECT_EQ(ThreeDigits(0.0), "0.00");
  EXPECT_EQ(ThreeDigits(1.236), "1.24");
  EXPECT_EQ(ThreeDigits(18.72), "18.7");
  EXPECT_EQ(ThreeDigits(1240.4), "1240");
}

TEST(ThreeDigits, NeverHasFourDigitsAfterRoundingUp) {
  EXPECT_EQ(ThreeDigits(9.994), "9.99");
  EXPECT_EQ(ThreeDigits(9.996), "10.0");
  EXPECT_EQ(ThreeDigits(99.94), "99.9");
  EXPECT_EQ(ThreeDigits(99.96), "100");
}

TEST(TimeText, ChoosesTheUnit) {
  EXPECT_EQ(TimeText(Seconds::Of(12.3e-6)), "12.3 µs");
  EXPECT_EQ(TimeText(Seconds::Of(12.3e-3)), "12.3 ms");
  EXPECT_EQ(TimeText(Seconds::Of(999.6e-6)), "1.00 ms");
  EXPECT_EQ(TimeText(Seconds::Of(1.24)), "1.24 s");
  EXPECT_EQ(TimeText(Seconds::Of(7000)), "7000 s");
  EXPECT_EQ(TimeText(Seconds::Of(9000)), "2.50 h");
}

TEST(TimeText, HasTextsForNothingAndForNever) {
  EXPECT_EQ(TimeText(Seconds()), "0 s");
  EXPECT_EQ(TimeText(Seconds::Of(4.2e-9)), "0.00 µs");
  EXPECT_EQ(TimeText(Seconds::Infinite()), "–");
  EXPECT_EQ(TimeText(Seconds::Of(std::numeric_limits<double>::quiet_NaN())), "–");
}

TEST(SizeText, UsesDecimalUnits) {
  EXPECT_EQ(SizeText(Bytes()), "0 B");
  EXPECT_EQ(SizeText(Bytes::Of(999)), "999 B");
  EXPECT_EQ(SizeText(Bytes::Of(1000)), "1.00 kB");
  EXPECT_EQ(SizeText(Bytes::Of(15'800'000'000)), "15.8 GB");
  EXPECT_EQ(SizeText(Bytes::Of(int64_t{80} << 30)), "85.9 GB");
  EXPECT_EQ(SizeText(Bytes::Of(12'345'000'000'000'000)), "12345 TB");
}

}  // namespace
}  // namespace parplan
