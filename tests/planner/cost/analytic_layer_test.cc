#include "planner/cost/analytic_layer.h"

#include <vector>

#include "gtest/gtest.h"
#include "planner/cost/slowest_device.h"
#include "tests/planner/cost/hardware_of_tests.h"

namespace parplan {
namespace {

using enum Coefficient;

AnalyticTimes Times(const LayerDefinition& layer, const RuntimeTraits& runtime,
                    const DeviceDescription& device = TestDevice(),
                    const Coefficients& coefficients = Coefficients("ampere"),
                    const LayerShape& shape = {}, double samples = 2.0) {
  return AnalyticLayer(layer, Precision::kFp16, runtime, device, coefficients)
      .Times(shape, samples);
}

// All times of a layer, for laws that hold for each.
std::vector<double> DeviceSeconds(const AnalyticTimes& times) {
  return {times.forward.device.value(), times.backward.device.value(),
          times.full_recompute.device.value(), times.selective_recompute.device.value()};
}

void ExpectNowhereSlower(const AnalyticTimes& a, const AnalyticTimes& b) {
  for (int i = 0; i < 4; ++i) EXPECT_LE(DeviceSeconds(a)[i], DeviceSeconds(b)[i]) << i;
}

TEST(AnalyticLayer, ABetterDeviceIsNeverSlower) {
  const LayerDefinition layer = TestDecoder(2048, 16, 2048);
  for (const RuntimeTraits& runtime : KnownRuntimes()) {
    const AnalyticTimes times = Times(layer, runtime);
    DeviceDescription device = TestDevice();
    device.matrix_flops_16_bit *= 1.5;
    ExpectNowhereSlower(Times(layer, runtime, device), times);
    device = TestDevice();
    device.memory_bytes_per_second *= 1.5;
    ExpectNowhereSlower(Times(layer, runtime, device), times);
    device = TestDevice();
    device.vector_flops_fp32 *= 1.5;
    ExpectNowhereSlower(Times(layer, runtime, device), times);
  }
}

TEST(AnalyticLayer, BetterCoefficientsAreNeverSlower) {
  const LayerDefinition layer = TestDecoder(2048, 16, 2048);
  const RuntimeTraits& runtime = *FindRuntime("megatron-2021");
  const AnalyticTimes times = Times(layer, runtime);
  for (const auto& [coefficient, better] :
       {std::pair(kMatrixEfficiency, 0.9), std::pair(kMemoryEfficiency, 0.95),
        std::pair(kReductionRamp, 0.0), std::pair(kKernelOverhead, 0.0)}) {
    Coefficients coefficients("ampere");
    coefficients[coefficient] = better;
    ExpectNowhereSlower(Times(layer, runtime, TestDevice(), coefficients), times);
  }
}

TEST(AnalyticLayer, MoreSamplesTakeLonger) {
  const LayerDefinition layer = TestDecoder(2048, 16, 1024);
  for (const RuntimeTraits& runtime : KnownRuntimes()) {
    AnalyticTimes last;
    for (const double samples : {0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0}) {
      const AnalyticTimes times =
          Times(layer, runtime, TestDevice(), Coefficients("ampere"), {}, samples);
      ExpectNowhereSlower(last, times);
      last = times;
    }
  }
}

TEST(AnalyticLayer, MoreRanksAreNeverSlower) {
  const LayerDefinition layer = TestDecoder(4096, 32, 2048);
  for (const RuntimeTraits& runtime : KnownRuntimes()) {
    AnalyticTimes last = Times(layer, runtime);
    for (const int degree : {2, 4, 8}) {
      const AnalyticTimes times =
          Times(layer, runtime, TestDevice(), Coefficients("ampere"), {degree, 1, 1, false});
      ExpectNowhereSlower(times, last);
      ExpectNowhereSlower(
          Times(layer, runtime, TestDevice(), Coefficients("ampere"), {degree, 1, 1, true}), times);
      last = times;
    }
  }
}

TEST(AnalyticLayer, RecomputesWhatItSays) {
  const LayerDefinition layer = TestDecoder(2048, 16, 2048);
  const AnalyticTimes unfused = Times(layer, *FindRuntime("megatron-2021"));
  EXPECT_EQ(unfused.full_recompute.device, unfused.forward.device);
  EXPECT_GT(unfused.selective_recompute.device, Seconds());
  EXPECT_LT(unfused.selective_recompute.device, unfused.full_recompute.device);
  const AnalyticTimes fused = Times(layer, *FindRuntime("parplan"));
  EXPECT_GT(fused.selective_recompute.device, Seconds());
  EXPECT_LT(fused.selective_recompute.device, unfused.selective_recompute.device);
}

TEST(AnalyticLayer, OlderFlashKernelsAreSlower) {
  const LayerDefinition layer = TestDecoder(2048, 16, 16384);
  DeviceDescription hopper = TestDevice();
  hopper.device_family = "hopper";
  const auto attention = [&layer](FlashKernel kernel, const DeviceDescription& device) {
    RuntimeTraits runtime;
    runtime.flash_kernel = kernel;
    return Times(layer, runtime, device).forward.device;
  };
  EXPECT_GT(attention(FlashKernel::kFirst, hopper), attention(FlashKernel::kSecond, hopper));
  EXPECT_GT(attention(FlashKernel::kSecond, hopper), attention(FlashKernel::kNative, hopper));
  // Nothing is faster than FlashAttention-2 on an A100.
  EXPECT_EQ(attention(FlashKernel::kSecond, TestDevice()),
            attention(FlashKernel::kNative, TestDevice()));
}

// Devices of a family that differ in units for exponentials alone (exponential_cost.h).
TEST(AnalyticLayer, MoreUnitsForExponentialsMakeFusedAttentionFaster) {
  const LayerDefinition layer = TestDecoder(2048, 16, 8192);
  const RuntimeTraits& runtime = *FindRuntime("megatron-core");
  const Coefficients coefficients("blackwell");
  DeviceDescription device = TestDevice();
  device.device_family = "blackwell";
  device.matrix_flops_4_bit = 4.0 * device.matrix_flops_16_bit;
  const AnalyticTimes usual = Times(layer, runtime, device, coefficients);
  device.matrix_flops_4_bit = 6.0 * device.matrix_flops_16_bit;
  const AnalyticTimes ultra = Times(layer, runtime, device, coefficients);
  EXPECT_LT(ultra.forward.device.value(), usual.forward.device.value());
  EXPECT_LT(ultra.backward.device.value(), usual.backward.device.value());
}

TEST(AnalyticLayer, CheckpointsThatStopEarlyLeaveTheLastProductOut) {
  const LayerDefinition layer = TestDecoder(4096, 32, 2048);
  RuntimeTraits runtime;
  runtime.recompute_stops_early = true;
  const AnalyticTimes times = Times(layer, runtime);
  // 4 h^2 of 12 h^2 weights.
  EXPECT_GT(times.full_recompute.device, 0.6 * times.forward.device);
  EXPECT_LT(times.full_recompute.device, 0.75 * times.forward.device);
}

TEST(AnalyticLayer, RecomputesOperatorsOfSwigluLayers) {
  LayerDefinition layer = TestDecoder(4096, 32, 2048);
  layer.feed_forward_kind = FeedForwardKind::kSwiglu;
  layer.feed_forward_size = 14336;
  RuntimeTraits runtime;
  runtime.selective_recompute = SelectiveRecompute::kOperators;
  const AnalyticTimes times = Times(layer, runtime);
  // Keys, the attention's projection and the up projection: 2 h^2 + h f of 4 h^2 + 3 h f.
  EXPECT_GT(times.selective_recompute.device, 0.3 * times.forward.device);
  EXPECT_LT(times.selective_recompute.device, 0.5 * times.forward.device);
}

TEST(AnalyticLayer, NearsTheSumOfItsProductsWhenTheyAreLarge) {
  // GPT-3's layer on 8 ranks: about 24 b s h^2 / 8 at 0.82 of the peak, and the rest.
  const AnalyticTimes times = Times(TestDecoder(12288, 96, 2048), *FindRuntime("parplan"),
                                    TestDevice(), Coefficients("ampere"), {8, 1, 1, true}, 1.0);
  const double products = 24.0 * 2048.0 * 12288.0 * 12288.0 / 8.0 / (0.82 * 312e12);
  EXPECT_GT(times.forward.device.value(), products);
  EXPECT_LT(times.forward.device.value(), 1.25 * products);
  EXPECT_GT(times.backward.device.value(), 2.0 * products);
  EXPECT_LT(times.backward.device.value(), 2.5 * products);
}

TEST(AnalyticLayer, HidesCollectivesBehindPartOfTheBackwardPass) {
  const AnalyticTimes times = Times(TestDecoder(4096, 32, 2048), *FindRuntime("megatron-core"));
  // Weight gradients are half of the products; those of 3 h^2 and 4 h^2 of 12 h^2
  // weights come while their input's gradient is on its way.
  EXPECT_GT(times.hiding_backward, 0.2 * times.backward.device);
  EXPECT_LT(times.hiding_backward, 0.35 * times.backward.device);
}

// Forward every linear map reads what is gathered or writes what is scattered; backward the
// gradients of the inputs of maps split by rows do: h^2 and 4 h^2, where the weight gradients of
// those split by columns are 3 h^2 and 4 h^2.
TEST(AnalyticLayer, SplitsCollectivesAmongItsProducts) {
  const AnalyticTimes times = Times(TestDecoder(12288, 96, 2048), *FindRuntime("megatron-core"));
  EXPECT_NEAR(times.splitting_backward / times.hiding_backward, 5.0 / 7.0, 0.05);
  EXPECT_NEAR(times.splitting_forward / times.hiding_backward, 12.0 / 7.0, 0.1);
}

// Seconds on the device for a layer of Megatron-DeepSpeed that recomputes all of itself, on one of
// `tensor_degree` ranks.
double RecomputedSeconds(const LayerDefinition& layer, int tensor_degree, double samples,
                         const DeviceDescription& device = TestDevice()) {
  const AnalyticTimes times = Times(layer, *FindRuntime("megatron-deepspeed"), device,
                                    Coefficients("ampere"), {tensor_degree, 1, 1, false}, samples);
  return (times.forward.device + times.full_recompute.device + times.backward.device).value();
}

// The bounds of the three tests below are figures of docs/cost-model-time.md.
TEST(AnalyticLayer, HeadSizesThatLeaveTheMatrixUnitsCostAQuarterToAHalf) {
  for (const int tensor_degree : {1, 4, 8}) {
    for (const double samples : {1.0, 2.0, 4.0, 8.0}) {
      // Heads of 150 beside heads of 144 or 200, and of 108 beside heads of 144.
      const LayerDefinition wide = TestDecoder(14400, tensor_degree == 8 ? 72 : 100, 2048);
      const double of_150 =
          RecomputedSeconds(TestDecoder(14400, 96, 2048), tensor_degree, samples) /
          RecomputedSeconds(wide, tensor_degree, samples);
      const double of_108 =
          RecomputedSeconds(TestDecoder(13824, 128, 2048), tensor_degree, samples) /
          RecomputedSeconds(TestDecoder(13824, 96, 2048), tensor_degree, samples);
      for (const double ratio : {of_150, of_108}) {
        EXPECT_GT(ratio, 1.25) << tensor_degree << " ranks, " << samples << " samples";
        EXPECT_LT(ratio, 1.5) << tensor_degree << " ranks, " << samples << " samples";
      }
    }
  }
}

TEST(AnalyticLayer, RandomNumbersTakeTwoToSevenPerCentOfSmallLayers) {
  DeviceDescription free = TestDevice();
  free.vector_flops_fp32 *= 1e6;
  double last = 1.0;
  for (const int hidden_size : {1024, 2048, 4096, 8192}) {
    const LayerDefinition layer = TestDecoder(hidden_size, hidden_size / 64, 2048);
    const double share =
        1.0 - RecomputedSeconds(layer, 1, 4.0, free) / RecomputedSeconds(layer, 1, 4.0);
    EXPECT_GT(share, 0.02) << hidden_size;
    EXPECT_LT(share, 0.07) << hidden_size;
    EXPECT_LT(share, last) << hidden_size;
    last = share;
  }
}

TEST(AnalyticLayer, OneSampleOfTwoHeadsLosesTheFusedSoftmax) {
  for (const int hidden_size : {1024, 2048, 4096}) {
    // Two heads of each of 8 ranks; two samples have four.
    const LayerDefinition layer = TestDecoder(hidden_size, 16, 1024);
    const double ratio =
        RecomputedSeconds(layer, 8, 1.0) / (RecomputedSeconds(layer, 8, 2.0) / 2.0);
    EXPECT_GT(ratio, 1.25) << hidden_size;
    EXPECT_LT(ratio, 1.85) << hidden_size;
  }
}

TEST(AnalyticLayer, TheHostLaunchesKernelsWhateverTheirSize) {
  const RuntimeTraits& runtime = *FindRuntime("megatron-deepspeed");
  const Coefficients coefficients("ampere");
  const AnalyticTimes small = Times(TestDecoder(1024, 16, 1024), runtime);
  const AnalyticTimes large = Times(TestDecoder(8192, 64, 2048), runtime);
  EXPECT_EQ(small.forward.host, large.forward.host);
  EXPECT_EQ(small.backward.host, large.backward.host);
  // vTrain's smallest layers take 3.1 to 4.6 ms forward, again and backward
  // (docs/cost-model-time.md has the command), whatever the device could do.
  const double host = 2.0 * small.forward.host.value() + small.backward.host.value();
  EXPECT_GT(host, 2e-3);
  EXPECT_LT(host, 5e-3);
  RuntimeTraits graphs = runtime;
  graphs.eager = false;
  EXPECT_EQ(Times(TestDecoder(1024, 16, 1024), graphs).forward.host, Seconds());
  Coefficients slow = coefficients;
  slow[kLaunchInterval] *= 2.0;
  EXPECT_DOUBLE_EQ(
      Times(TestDecoder(1024, 16, 1024), runtime, TestDevice(), slow).forward.host.value(),
      2.0 * small.forward.host.value());
}

TEST(SlowestDevice, IsSlowerTheMoreThereAre) {
  Coefficients coefficients;
  coefficients[kDeviceSpread] = 0.02;
  EXPECT_EQ(SlowestDeviceFactor(1, coefficients), 1.0);
  double last = 1.0;
  for (const int count : {2, 8, 64, 512, 4096}) {
    EXPECT_GT(SlowestDeviceFactor(count, coefficients), last);
    last = SlowestDeviceFactor(count, coefficients);
  }
  // The largest of two normal deviates is 1 / sqrt(pi) on average, of eight 1.424.
  EXPECT_NEAR(SlowestDeviceFactor(2, coefficients), 1.0 + 0.02 * 0.5642, 0.001);
  EXPECT_NEAR(SlowestDeviceFactor(8, coefficients), 1.0 + 0.02 * 1.4236, 0.001);
  coefficients[kDeviceSpread] = 0.0;
  EXPECT_EQ(SlowestDeviceFactor(4096, coefficients), 1.0);
}

}  // namespace
}  // namespace parplan
