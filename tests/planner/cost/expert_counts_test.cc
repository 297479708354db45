// Layers whose host reads how many tokens each expert gets before it launches the experts' kernels.

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "planner/cost/analytic_layer.h"
#include "planner/cost/layer_operations.h"
#include "tests/planner/cost/hardware_of_tests.h"

namespace parplan {
namespace {

// A device of a family with 8-bit products.
DeviceDescription EightBitDevice() {
  DeviceDescription device = TestDevice();
  device.device_family = "hopper";
  device.matrix_flops_8_bit = 2.0 * device.matrix_flops_16_bit;
  return device;
}

LayerDefinition ManyExperts(int expert_count = 64) {
  LayerDefinition layer = TestDecoder(2048, 16, 4096);
  layer.parameter_count = 0;
  layer.feed_forward_kind = FeedForwardKind::kSwiglu;
  layer.feed_forward_size = 0;
  layer.expert_count = expert_count;
  layer.experts_per_token = 8;
  layer.expert_feed_forward_size = 768;
  return *LayerDefinition::Create(layer, "layer");
}

RuntimeTraits Bridge(bool reads) {
  RuntimeTraits runtime = *FindRuntime("megatron-bridge");
  runtime.reads_expert_counts = reads;
  return runtime;
}

LayerShape SpreadOver(int expert_parallel_degree) {
  LayerShape shape;
  shape.expert_parallel_degree = expert_parallel_degree;
  return shape;
}

AnalyticTimes TimesOnRanks(const LayerDefinition& layer, Precision precision,
                           const RuntimeTraits& runtime, int ranks, double samples = 1.0) {
  return AnalyticLayer(layer, precision, runtime, EightBitDevice(), Coefficients("hopper"))
      .Times(SpreadOver(ranks), samples, /*with_modules=*/true);
}

int AwaitedLaunches(Precision precision, const RuntimeTraits& runtime, int ranks,
                    const LayerDefinition& layer = ManyExperts()) {
  LayerOperations operations;
  ListOperations(layer, precision, runtime, SpreadOver(ranks), 1.0, operations);
  return operations.awaited_launch_count;
}

// 64 experts on 8 ranks are 8 on each: two products and the activation between them, 14 products of
// the other seven, and the exchange there and back.
TEST(ExpertCounts, HoldUpTheKernelsBehindTheRouter) {
  EXPECT_EQ(AwaitedLaunches(Precision::kBf16, Bridge(true), 8), 3 + 2 * 7 + 2);
  // On one rank nothing is exchanged, and 63 other experts have kernels of their own.
  EXPECT_EQ(AwaitedLaunches(Precision::kBf16, Bridge(true), 1), 3 + 2 * 63);
  // Each expert's input and activation are quantised, in one kernel, or in two where the scale
  // depends on the whole tensor.
  EXPECT_EQ(AwaitedLaunches(Precision::kFp8Delayed, Bridge(true), 8), 3 + 2 * 7 + 2 + 2 * 8);
  EXPECT_EQ(AwaitedLaunches(Precision::kFp8Current, Bridge(true), 8), 3 + 2 * 7 + 2 + 4 * 8);
  EXPECT_EQ(AwaitedLaunches(Precision::kBf16, Bridge(false), 8), 0);
  EXPECT_EQ(AwaitedLaunches(Precision::kBf16, Bridge(true), 1, TestDecoder(2048, 16, 4096)), 0);
}

// The device waits for 19 launches of a forward pass, however much there is to compute. Passes that
// repeat the experts wait again; the backward pass knows the numbers.
TEST(ExpertCounts, CostTheHostsTimeForTheseKernels) {
  const RuntimeTraits reads = Bridge(true);
  const double interval = Coefficients("hopper")[Coefficient::kLaunchInterval];
  const double wait = 19 * interval * reads.forward_launch_ratio;
  constexpr int kExperts = static_cast<int>(RecomputeModule::kExperts);
  for (const double samples : {1.0, 8.0}) {
    const AnalyticTimes with = TimesOnRanks(ManyExperts(), Precision::kBf16, reads, 8, samples);
    const AnalyticTimes without =
        TimesOnRanks(ManyExperts(), Precision::kBf16, Bridge(false), 8, samples);
    EXPECT_NEAR((with.forward.device - without.forward.device).value(), wait, 1e-12);
    EXPECT_NEAR((with.full_recompute.device - without.full_recompute.device).value(), wait, 1e-12);
    EXPECT_NEAR((with.modules[kExperts].device - without.modules[kExperts].device).value(), wait,
                1e-12);
    EXPECT_EQ(with.backward.device, without.backward.device);
    EXPECT_EQ(with.forward.host, without.forward.host);
  }
}

TEST(ExpertCounts, CostNothingInCapturedGraphs) {
  RuntimeTraits reads = Bridge(true);
  RuntimeTraits does_not = Bridge(false);
  reads.eager = does_not.eager = false;
  EXPECT_EQ(TimesOnRanks(ManyExperts(), Precision::kBf16, reads, 8).forward.device,
            TimesOnRanks(ManyExperts(), Precision::kBf16, does_not, 8).forward.device);
}

// Fewer experts on a rank are fewer kernels to wait for.
TEST(ExpertCounts, CostLessOnMoreRanks) {
  double before = 1e9;
  for (const int ranks : {1, 2, 4, 8, 16, 32}) {
    const double wait =
        (TimesOnRanks(ManyExperts(), Precision::kFp8Delayed, Bridge(true), ranks).forward.device -
         TimesOnRanks(ManyExperts(), Precision::kFp8Delayed, Bridge(false), ranks).forward.device)
            .value();
    EXPECT_GT(wait, 0.0);
    EXPECT_LT(wait, before);
    before = wait;
  }
}

// These are the only programs that are known to read them.
TEST(ExpertCounts, AreReadByMegatronsOfToday) {
  std::vector<std::string> readers;
  for (const RuntimeTraits& runtime : KnownRuntimes()) {
    if (runtime.reads_expert_counts) readers.push_back(runtime.runtime_id);
  }
  std::sort(readers.begin(), readers.end());
  EXPECT_EQ(readers,
            (std::vector<std::string>{"megatron-bridge", "megatron-core", "megatron-core-fp8"}));
}

}  // namespace
}  // namespace parplan
