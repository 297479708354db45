#include "planner/cost/matrix_time.h"

#include <cmath>

#include "gtest/gtest.h"
#include "tests/planner/cost/hardware_of_tests.h"

namespace parplan {
namespace {

using enum Coefficient;

// Everything at its peak, so that times can be worked out by hand.
Coefficients PerfectDevice() {
  Coefficients coefficients;
  coefficients[kMatrixEfficiency] = 1.0;
  coefficients[kMemoryEfficiency] = 1.0;
  coefficients[kReductionRamp] = 0.0;
  coefficients[kKernelOverhead] = 0.0;
  return coefficients;
}

double Time(const ProductShape& product, const Coefficients& coefficients,
            const DeviceDescription& device = TestDevice(),
            Precision precision = Precision::kFp16) {
  return MatrixTime(device, coefficients, precision).Time(product).value();
}

TEST(MatrixTime, ReachesThePeakWithWholeWavesOfLargeTiles) {
  // 108 x 80 tiles of 256 x 128 in eighty waves.
  const ProductShape product{256.0 * 108, 128.0 * 80, 65536.0};
  const double peak = product.Flops() / 312e12;
  EXPECT_GE(Time(product, PerfectDevice()), peak);
  EXPECT_LT(Time(product, PerfectDevice()), 1.02 * peak);
}

TEST(MatrixTime, PaysForAPartFilledWave) {
  // One tile of 64 x 64 more than one wave of them; nothing larger fits better.
  const DeviceDescription device = [] {
    DeviceDescription made = TestDevice();
    made.memory_bytes_per_second = 1e18;
    return made;
  }();
  const ProductShape full{256, 128, 4096, 108};
  const ProductShape more{256, 128, 4096, 109};
  EXPECT_GT(Time(more, PerfectDevice(), device), 1.3 * Time(full, PerfectDevice(), device));
}

TEST(MatrixTime, MovesItsOperandsAtLeast) {
  // A vector times a matrix reads 2 bytes for two operations.
  const ProductShape product{1, 8192, 8192};
  const double bytes = 2.0 * (8192.0 + 8192.0 * 8192.0 + 8192.0);
  EXPECT_GE(Time(product, PerfectDevice()), bytes / 2.039e12);
}

TEST(MatrixTime, AddsTheOverheadOfAKernel) {
  Coefficients slow = PerfectDevice();
  slow[kKernelOverhead] = 5e-6;
  const ProductShape product{512, 512, 512};
  EXPECT_NEAR(Time(product, slow), Time(product, PerfectDevice()) + 5e-6, 1e-15);
}

TEST(MatrixTime, SplitsALongInnerDimensionOfFewTiles) {
  // Four tiles on 108 multiprocessors: a weight gradient of many tokens.
  const ProductShape product{256, 256, 65536};
  const double unsplit = 4.0 * 65536.0 * 2.0 * 128.0 * 128.0 / 4.0 / (312e12 / 108) / 0.97;
  EXPECT_LT(Time(product, PerfectDevice()), 0.1 * unsplit);
}

TEST(MatrixTime, LeavesTheMatrixUnitsWhenRowsAreMisaligned) {
  // 96 heads of 14400 are 150 wide: 300 bytes.
  const ProductShape aligned{2048, 2048, 152, 12};
  const ProductShape misaligned{2048, 2048, 150, 12};
  EXPECT_GT(Time(misaligned, PerfectDevice()), 5.0 * Time(aligned, PerfectDevice()));
  EXPECT_GE(Time(misaligned, PerfectDevice()), misaligned.Flops() / 19.5e12);
  // Four elements of four bytes are enough.
  const ProductShape four{2048, 2048, 148, 12};
  EXPECT_LT(Time(four, PerfectDevice(), TestDevice(), Precision::kFp32), four.Flops() / 19.5e12);
  // An average over ranks says nothing of alignment.
  const ProductShape average{2048, 2048, 150.5, 12};
  EXPECT_LT(Time(average, PerfectDevice()), Time(misaligned, PerfectDevice()));
}

TEST(MatrixTime, IsNeverSlowerOnABetterDevice) {
  const Coefficients coefficients;
  for (const double inner : {64.0, 96.0, 1024.0, 12288.0}) {
    for (const double rows : {1.0, 100.0, 2048.0, 16384.0}) {
      const ProductShape product{rows, 3072, inner, 2};
      const double time = Time(product, coefficients);
      DeviceDescription device = TestDevice();
      device.matrix_flops_16_bit *= 2.0;
      EXPECT_LE(Time(product, coefficients, device), time);
      device = TestDevice();
      device.memory_bytes_per_second *= 2.0;
      EXPECT_LE(Time(product, coefficients, device), time);
      device = TestDevice();
      device.vector_flops_fp32 *= 2.0;
      EXPECT_LE(Time(product, coefficients, device), time);
    }
  }
}

TEST(MatrixTime, NeverFallsAsAMatrixGrows) {
  const MatrixTime model(TestDevice(), Coefficients(), Precision::kBf16);
  for (const double columns : {128.0, 3072.0}) {
    double last = 0.0;
    for (double rows = 8; rows <= 20000; rows *= 1.5) {
      const double time = model.Time({rows, columns, 2048.0}).value();
      EXPECT_GE(time, last * (1.0 - 1e-12)) << rows << " x " << columns;
      last = time;
    }
  }
}

TEST(MatrixTime, OfNothingIsNothing) {
  EXPECT_EQ(Time({0, 128, 128}, Coefficients()), 0.0);
  EXPECT_EQ(Time({128, 128, 128, 0}, Coefficients()), 0.0);
}

DeviceDescription NarrowDevice() {
  DeviceDescription device = TestDevice();
  device.matrix_flops_8_bit = 2.0 * device.matrix_flops_16_bit;
  device.matrix_flops_4_bit = 4.0 * device.matrix_flops_16_bit;
  return device;
}

// 108 x 80 tiles of 256 x 128 in eighty waves take half the time with operands of 8 bits.
TEST(MatrixTime, QuantisedProductsHaveTheRateOfTheirFormat) {
  const ProductShape plain{256.0 * 108, 128.0 * 80, 65536.0};
  ProductShape quantised = plain;
  quantised.is_quantised = true;
  const double wide = Time(plain, PerfectDevice(), NarrowDevice(), Precision::kMxfp8);
  EXPECT_EQ(wide, Time(plain, PerfectDevice(), NarrowDevice(), Precision::kBf16));
  EXPECT_NEAR(Time(quantised, PerfectDevice(), NarrowDevice(), Precision::kMxfp8), wide / 2.0,
              0.01 * wide);
  EXPECT_NEAR(Time(quantised, PerfectDevice(), NarrowDevice(), Precision::kNvfp4), wide / 4.0,
              0.01 * wide);
}

TEST(MatrixTime, NarrowerOperandsAreNeverSlower) {
  for (const ProductShape& shape :
       {ProductShape{8192, 8192, 8192}, ProductShape{16, 4096, 4096}, ProductShape{256, 256, 65536},
        ProductShape{96, 768, 2048, 128}, ProductShape{8192, 14344, 4096},
        ProductShape{8192, 4096, 14352}, ProductShape{4096, 176, 2048}}) {
    ProductShape quantised = shape;
    quantised.is_quantised = true;
    const double wide = Time(shape, Coefficients(), NarrowDevice(), Precision::kBf16);
    const double eight = Time(quantised, Coefficients(), NarrowDevice(), Precision::kFp8Delayed);
    EXPECT_LE(eight, wide);
    const double four = Time(quantised, Coefficients(), NarrowDevice(), Precision::kNvfp4);
    EXPECT_LE(four, wide);
    // Sizes that only 8 bits can multiply have no 4-bit kernel, and the recipe has no other.
    const auto is_multiple = [](double size) { return std::fmod(size, 32.0) == 0.0; };
    if (is_multiple(shape.columns) && is_multiple(shape.inner)) {
      EXPECT_LE(four, eight);
    }
  }
}

// Rows of 8 mod 16 elements have no kernel of 8 bits, those of 16 mod 32 none of 4: the product is
// one of 16 bits, which has.
TEST(MatrixTime, ProductsThatTheirRecipeCannotMultiplyStayWide) {
  ProductShape product{8192, 8192, 14344};
  const auto time = [&](Precision precision, int inner, bool is_quantised) {
    product.inner = inner;
    product.is_quantised = is_quantised;
    return Time(product, PerfectDevice(), NarrowDevice(), precision);
  };
  EXPECT_EQ(time(Precision::kMxfp8, 14344, true), time(Precision::kBf16, 14344, false));
  EXPECT_EQ(time(Precision::kNvfp4, 14352, true), time(Precision::kBf16, 14352, false));
  EXPECT_LT(time(Precision::kMxfp8, 14352, true), 0.6 * time(Precision::kBf16, 14352, false));
}

TEST(MatrixTime, HoldsTheClockThatThePowerAllows) {
  DeviceDescription throttled = TestDevice();
  throttled.power_limit_watts = 100.0;
  const ProductShape product{8192, 8192, 8192};
  EXPECT_GT(Time(product, PerfectDevice(), throttled), 1.2 * Time(product, PerfectDevice()));
}

}  // namespace
}  // namespace parplan
