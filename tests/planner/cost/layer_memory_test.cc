#include "planner/cost/layer_memory.h"

#include <algorithm>
#include <cstdint>

#include <gtest/gtest.h>

#include "planner/model/layer_matrices.h"
#include "planner/model/layer_precision.h"
#include "tests/planner/cost/hardware_of_tests.h"
#include "tests/planner/cost/layer_memory_of.h"

namespace parplan {
namespace {

TEST(MemoryOfLayer, HoldsTheBytesPerParameterOfEachSetting) {
  const LayerDefinition layer = TestDecoder(1024, 16, 512);
  const Bytes one = Bytes::Of(layer.parameter_count);
  RuntimeTraits traits;
  traits.gradient_bytes = 4;
  // 2 + 4 + 8 + 4: 16-bit weights, fp32 gradients, moments, masters.
  EXPECT_EQ(MemoryOf(layer, traits, Strategy()).states(), one * 18);
  traits.gradient_bytes = 2;
  EXPECT_EQ(MemoryOf(layer, traits, Strategy()).states(), one * 16);
  EXPECT_EQ(MemoryOf(layer, traits, Strategy()).step, Bytes());
  traits.widens_gradients_in_step = true;
  EXPECT_EQ(MemoryOf(layer, traits, Strategy()).step, one * 4);
  traits.gradient_bytes = 4;
  traits.separate_gradient_buffer = true;
  EXPECT_EQ(MemoryOf(layer, traits, Strategy()).states(), one * 20);
  EXPECT_EQ(MemoryOf(layer, traits, Strategy(), 1.0, Precision::kFp32).states(), one * 16);
}

// nanotron's 16-bit gradients follow a pass from layer to layer. A decoder of 12 h^2 + 2 h
// parameters makes 2 bytes of each; what it kept until then, 34 s h and the scores without dropout,
// makes room for them. A short sequence keeps less than that, and the rest comes on top. Layers
// that shard no states have messages of 2 bytes a parameter besides.
TEST(MemoryOfLayer, MakesGradientsOfAPassInThePlaceOfWhatItKept) {
  RuntimeTraits traits;
  traits.gradient_bytes = 4;
  traits.separate_gradient_buffer = true;
  const RuntimeTraits always = traits;
  traits.frees_gradients_after_pass = true;
  Strategy shared;
  shared.data_parallel_degree = 2;
  shared.sharding_level = ShardingLevel::kOptimizer;
  for (const int tokens : {8, 4096}) {
    const LayerDefinition layer = TestDecoder(1024, 16, tokens);
    const Bytes one = Bytes::Of(layer.parameter_count);
    const LayerMemory memory = MemoryOf(layer, traits, shared);
    const bool is_short = memory.kept < one * 2;
    EXPECT_EQ(is_short, tokens == 8);
    EXPECT_EQ(memory.pass_gradients, is_short ? memory.kept : one * 2);
    EXPECT_EQ(memory.gradients, one * 4 + (one * 2 - memory.pass_gradients));
    EXPECT_EQ(MemoryOf(layer, traits, Strategy()).gradients, memory.gradients + one * 2);
    // Never more than the same gradients all the time, and as much with nothing kept.
    const LayerMemory before = MemoryOf(layer, always, shared);
    EXPECT_EQ(before.gradients, one * 6);
    EXPECT_EQ(before.pass_gradients, Bytes());
    EXPECT_LT(memory.gradients, before.gradients);
    EXPECT_EQ(MemoryOf(layer, traits, shared, 1.0, Precision::kFp32).gradients, one * 4);
  }
}

TEST(MemoryOfLayer, ShardsWhatTheLevelSays) {
  const LayerDefinition layer = TestDecoder(1024, 16, 512);
  const int64_t count = layer.parameter_count;
  ASSERT_EQ(count % 8, 0);
  Strategy strategy;
  strategy.data_parallel_degree = 4;
  strategy.context_parallel_degree = 2;
  RuntimeTraits traits;
  traits.gradient_bytes = 4;
  const auto states = [&](ShardingLevel level) {
    strategy.sharding_level = level;
    return MemoryOf(layer, traits, strategy).states().count();
  };
  EXPECT_EQ(states(ShardingLevel::kNone), 18 * count);
  EXPECT_EQ(states(ShardingLevel::kOptimizer), 6 * count + 12 * count / 8);
  EXPECT_EQ(states(ShardingLevel::kGradients), 2 * count + 16 * count / 8);
  EXPECT_EQ(states(ShardingLevel::kParameters), 18 * count / 8);
}

// Those that it scatters are the sums of a micro-batch; a framework's are what autograd writes.
TEST(MemoryOfLayer, GradientsOfTheExecutorHave32Bits) {
  const LayerDefinition layer = TestDecoder(1024, 16, 8);
  const Bytes one = Bytes::Of(layer.parameter_count);
  Strategy strategy;
  EXPECT_EQ(MemoryOf(layer, ExecutorTraits(), strategy).gradients, one * 4);
  strategy.data_parallel_degree = 2;
  strategy.sharding_level = ShardingLevel::kGradients;
  const LayerMemory own = MemoryOf(layer, ExecutorTraits(), strategy);
  EXPECT_EQ(own.gradients, one * 2);
  EXPECT_EQ(own.gathered, one * 4);
  RuntimeTraits traits = ExecutorTraits();
  traits.scatters_gradients_in_line = false;
  EXPECT_EQ(MemoryOf(layer, traits, strategy).gathered, one * 2);
  // On GPUs those of the layer before are on their way meanwhile.
  EXPECT_EQ(MemoryOf(layer, *FindRuntime("parplan-exec"), strategy).gathered, one * 8);
  EXPECT_EQ(MemoryOf(layer, ExecutorTraits(), strategy, 1.0, Precision::kFp32).gathered, one * 4);
}

TEST(FootprintOf, SplitsMatricesAndPaddedTablesAndKeepsNormsWhole) {
  const RuntimeTraits traits = *FindRuntime("megatron-core");
  Strategy strategy;
  strategy.tensor_parallel_degree = 4;
  const auto count = [&](const LayerDefinition& layer, bool copies = false) {
    return FootprintOf(layer, Precision::kBf16, traits, strategy, copies).parameter_count;
  };
  EXPECT_EQ(count(TestDecoder(1024, 16, 512)), 12 * 1024 * 1024 / 4 + 2 * 1024);
  EXPECT_EQ(count(TableLayer(LayerKind::kEmbedding, 512, 50257, 128, false)), 50688 / 4 * 512);
  EXPECT_EQ(count(TableLayer(LayerKind::kHead, 512, 50257, 128, true)), 512);
  EXPECT_EQ(count(TableLayer(LayerKind::kHead, 512, 50257, 128, true), true),
            50688 / 4 * 512 + 512);
  EXPECT_EQ(count(TableLayer(LayerKind::kHead, 512, 50257, 128, false)), 50688 / 4 * 512 + 512);
}

// Parameters that the sizes do not describe are on every rank, with or without experts.
TEST(FootprintOf, TakesAGivenCountOfALayerWithExperts) {
  LayerDefinition layer = TestDecoder(1024, 16, 512);
  layer.expert_count = 8;
  layer.experts_per_token = 2;
  layer.expert_feed_forward_size = 2048;
  layer.shared_expert_feed_forward_size = 8192;
  const int64_t attention = 4 * 1024 * 1024;
  const int64_t expert = 2 * 1024 * 2048;
  const int64_t shared = 2 * 1024 * 8192;
  const int64_t router = 8 * 1024;
  const int64_t more = 5'000'000;
  layer.parameter_count = attention + 8 * expert + shared + router + more;
  Strategy strategy;
  strategy.tensor_parallel_degree = 2;
  strategy.data_parallel_degree = 4;
  strategy.expert_parallel_degree = 4;
  const LayerFootprint footprint =
      FootprintOf(layer, Precision::kBf16, RuntimeTraits(), strategy, false);
  EXPECT_EQ(footprint.parameter_count, attention / 2 + shared / 2 + router + more);
  EXPECT_EQ(footprint.expert_parameter_count, 2 * expert / 2);
  EXPECT_EQ(footprint.largest_matrix_parameter_count, shared / 2 / 2);
}

TEST(FootprintOf, SpreadsExpertsOverExpertParallelRanks) {
  LayerDefinition layer = TestDecoder(1024, 16, 512);
  layer.expert_count = 8;
  layer.experts_per_token = 2;
  layer.expert_feed_forward_size = 2048;
  const RuntimeTraits traits;
  Strategy strategy;
  strategy.data_parallel_degree = 4;
  const int64_t expert = 2 * 1024 * 2048;
  LayerFootprint footprint = FootprintOf(layer, Precision::kBf16, traits, strategy, false);
  EXPECT_EQ(footprint.expert_parameter_count, 8 * expert);
  EXPECT_EQ(footprint.parameter_count, 4 * 1024 * 1024 + 2 * 1024 + 8 * 1024);
  strategy.expert_parallel_degree = 4;
  footprint = FootprintOf(layer, Precision::kBf16, traits, strategy, false);
  EXPECT_EQ(footprint.expert_parameter_count, 2 * expert);
  // Each expert lies on one of four data-parallel ranks: nothing to shard it over.
  strategy.sharding_level = ShardingLevel::kOptimizer;
  EXPECT_EQ(MemoryOfLayer(footprint, Precision::kBf16, Optimizer::kAdam, traits, strategy, 1)
                .master_parameters.count(),
            4 * 2 * expert + footprint.parameter_count);
}

// A table of 100 x 8 in fp32 on four ranks: with ZeRO-1 `fully_shard` keeps 200 parameters, and 800
// during the passes. With ZeRO-3 they are whole while the layer runs, twice beside the next one.
TEST(MemoryOfLayer, OfTorchKeepsShardsBetweenSteps) {
  const LayerDefinition table = TableLayer(LayerKind::kEmbedding, 8, 100, 4, false);
  const RuntimeTraits& torch = *FindRuntime("torch");
  Strategy strategy{.data_parallel_degree = 4};
  const auto memory = [&](ShardingLevel level) {
    strategy.sharding_level = level;
    return MemoryOf(table, torch, strategy, 1.0, Precision::kFp32);
  };
  EXPECT_EQ(memory(ShardingLevel::kNone).parameters, Bytes::Of(4 * 800));
  EXPECT_EQ(memory(ShardingLevel::kNone).gathered_all_time, Bytes());
  for (const ShardingLevel level : {ShardingLevel::kOptimizer, ShardingLevel::kGradients}) {
    EXPECT_EQ(memory(level).parameters, Bytes::Of(4 * 200));
    EXPECT_EQ(memory(level).gathered_all_time, Bytes::Of(4 * 800));
    EXPECT_EQ(memory(level).optimizer_states, Bytes::Of(8 * 200));
  }
  EXPECT_EQ(memory(ShardingLevel::kParameters).parameters, Bytes::Of(4 * 200));
  EXPECT_EQ(memory(ShardingLevel::kParameters).gathered_all_time, Bytes());
}

// The loss of the runtime `torch` is behind the head, so its memory is free before the head gathers
// a sharded matrix and makes its gradient. Whichever needs more counts.
TEST(MemoryOfLayer, OfTorchNeedsMemoryForTheLossOrForTheHead) {
  const RuntimeTraits& torch = *FindRuntime("torch");
  RuntimeTraits at_once = torch;
  at_once.gathers_logits = false;
  Strategy strategy{.data_parallel_degree = 4};
  strategy.sharding_level = ShardingLevel::kParameters;
  const LayerDefinition head = TableLayer(LayerKind::kHead, 64, 100, 4, false);
  for (const double samples : {0.25, 64.0}) {
    const LayerMemory memory = MemoryOf(head, torch, strategy, samples, Precision::kFp32);
    const LayerMemory sum = MemoryOf(head, at_once, strategy, samples, Precision::kFp32);
    const Bytes matrix = sum.running + sum.gathered;
    EXPECT_GT(matrix, Bytes());
    EXPECT_EQ(memory.transient(), std::max(sum.logits, matrix)) << samples;
    EXPECT_EQ(memory.logits > Bytes(), sum.logits >= matrix) << samples;
    EXPECT_EQ(sum.logits >= matrix, samples > 1.0);
  }
}

// 4 tokens of 100 logits in 32 bits a sample, beside the gradient of a matrix of 64 x 100.
TEST(MemoryOfLayer, TheLargestTensorIsOfLogitsOrOfAGradient) {
  const RuntimeTraits& torch = *FindRuntime("torch");
  const LayerDefinition head = TableLayer(LayerKind::kHead, 64, 100, 4, false);
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    const auto largest = [&](double samples) {
      return MemoryOf(head, torch, Strategy(), samples, precision).largest_tensor;
    };
    EXPECT_EQ(largest(1), Bytes::Of(4 * 64 * 100));
    EXPECT_EQ(largest(17), Bytes::Of(4 * 17 * 4 * 100));
  }
}

// In 16 bits each pass makes copies of the fp32 weights; autograd keeps those that a backward pass
// reads, unless the layer is recomputed.
TEST(MemoryOfLayer, OfTorchMakesCopiesOfRecomputedWeightsAgain) {
  const LayerDefinition decoder = TestDecoder(64, 4, 32);
  const Bytes copies = Bytes::Of(2 * decoder.parameter_count);
  for (const char* const runtime : {"torch", "fsdp"}) {
    const RuntimeTraits& traits = *FindRuntime(runtime);
    Strategy strategy;
    const LayerMemory kept = MemoryOf(decoder, traits, strategy, 1.0, Precision::kBf16);
    strategy.recompute_level = RecomputeLevel::kFull;
    const LayerMemory again = MemoryOf(decoder, traits, strategy, 1.0, Precision::kBf16);
    EXPECT_EQ(kept.gathered_all_time, copies);
    EXPECT_EQ(again.gathered_all_time, traits.recomputes_16_bit_parameters ? Bytes() : copies);
    EXPECT_EQ(again.gathered, traits.recomputes_16_bit_parameters ? copies : Bytes());
  }
  EXPECT_TRUE(FindRuntime("torch")->recomputes_16_bit_parameters);
}

// `fully_shard` without `reshard_after_forward` keeps what it gathered until the last backward pass
// of the step (clients/python/parplan/torch/data_parallel.py): 2 bytes a parameter, also of layers
// that are recomputed. One rank alone gathers nothing, and makes its copies again.
TEST(MemoryOfLayer, OfTorchKeepsGatheredWeightsOfRecomputedLayers) {
  const LayerDefinition decoder = TestDecoder(64, 4, 32);
  const Bytes copies = Bytes::Of(2 * decoder.parameter_count);
  const RuntimeTraits& torch = *FindRuntime("torch");
  Strategy strategy;
  strategy.recompute_level = RecomputeLevel::kFull;
  for (const int replicas : {1, 4}) {
    strategy.data_parallel_degree = replicas;
    for (const ShardingLevel level : {ShardingLevel::kOptimizer, ShardingLevel::kGradients}) {
      strategy.sharding_level = level;
      EXPECT_EQ(MemoryOf(decoder, torch, strategy, 1.0, Precision::kBf16).gathered_all_time,
                replicas > 1 ? copies : Bytes());
    }
    strategy.sharding_level = ShardingLevel::kNone;
    EXPECT_EQ(MemoryOf(decoder, torch, strategy, 1.0, Precision::kBf16).gathered_all_time, Bytes());
  }
}

// A decoder of 12 h^2 = 12 * 64^2 = 49,152 parameters in linear maps has two copies of them in
// 33/32 bytes beside 2 bytes of bf16; without 16-bit weights only the copies.
TEST(MemoryOfLayer, KeepsQuantisedWeightsForBothDirections) {
  const LayerDefinition layer = TestDecoder(64, 4, 32);
  RuntimeTraits traits;
  const LayerMemory wide = MemoryOf(layer, traits, {});
  const LayerMemory narrow = MemoryOf(layer, traits, {}, 1.0, Precision::kMxfp8);
  const Bytes copies = Bytes::Of(49'152 * 2 * 33 / 32);
  EXPECT_EQ(narrow.parameters - wide.parameters, copies);
  EXPECT_EQ(narrow.optimizer_states, wide.optimizer_states);
  EXPECT_EQ(narrow.master_parameters, wide.master_parameters);
  EXPECT_EQ(narrow.gradients, wide.gradients);
  traits.quantised_parameters = true;
  const LayerMemory alone = MemoryOf(layer, traits, {}, 1.0, Precision::kMxfp8);
  EXPECT_EQ(alone.parameters - wide.parameters, copies - Bytes::Of(49'152 * 2));
  // The trait changes nothing of a precision that does not quantise.
  EXPECT_EQ(MemoryOf(layer, traits, {}).parameters, wide.parameters);
}

// A device that reads operands in both orders needs one copy of a tensor with one scale: 49,152
// bytes. Other scales have their order.
TEST(MemoryOfLayer, KeepsOneCopyOfAScaledTensorWhereBothOrdersAreRead) {
  const LayerDefinition layer = TestDecoder(64, 4, 32);
  const RuntimeTraits traits;
  DeviceDescription hopper = TestDevice();
  hopper.device_family = "hopper";
  DeviceDescription blackwell = TestDevice();
  blackwell.device_family = "blackwell";
  const auto weights = [&](Precision precision, const DeviceDescription* device) {
    const LayerFootprint footprint = FootprintOf(layer, precision, traits, {}, false);
    return MemoryOfLayer(footprint, precision, Optimizer::kAdam, traits, {}, 1.0,
                         QuantisedCopyCount(precision, device))
        .parameters;
  };
  const Bytes copy = Bytes::Of(49'152);
  for (const Precision precision : {Precision::kFp8Delayed, Precision::kFp8Current}) {
    EXPECT_EQ(weights(precision, &hopper) - weights(Precision::kBf16, &hopper), copy * 2);
    EXPECT_EQ(weights(precision, &blackwell) - weights(Precision::kBf16, &blackwell), copy);
    EXPECT_EQ(weights(precision, nullptr), weights(precision, &hopper));
  }
  for (const PrecisionTraits& formats : KnownPrecisions()) {
    const Precision precision = formats.precision;
    EXPECT_LE(weights(precision, &blackwell), weights(precision, &hopper)) << formats.name;
    const bool has_tensor_scale =
        precision == Precision::kFp8Delayed || precision == Precision::kFp8Current;
    EXPECT_EQ(weights(precision, &blackwell) < weights(precision, &hopper), has_tensor_scale)
        << formats.name;
  }
}

// NVFP4, scales of rows and, by default, blocks of 128 have no parameters of their own, whatever
// the runtime: 49,152 elements keep their 2 bytes beside the copies.
TEST(MemoryOfLayer, RecipesWithoutNarrowParametersKeepThoseOf16Bits) {
  const LayerDefinition layer = TestDecoder(64, 4, 32);
  RuntimeTraits traits;
  traits.quantised_parameters = true;
  const Bytes wide = MemoryOf(layer, traits, {}).parameters;
  EXPECT_EQ(MemoryOf(layer, traits, {}, 1.0, Precision::kNvfp4).parameters - wide,
            Bytes::Of(49'152 * 2 * 9 / 16));
  EXPECT_EQ(MemoryOf(layer, traits, {}, 1.0, Precision::kFp8Rowwise).parameters - wide,
            Bytes::Of(49'152 * 2));
  EXPECT_GT(MemoryOf(layer, traits, {}, 1.0, Precision::kFp8Blockwise).parameters, wide);
  EXPECT_EQ(MemoryOf(layer, traits, {}, 1.0, Precision::kFp8Current).parameters, wide);
}

TEST(MemoryOfLayer, NarrowerOperandsNeverTakeMore) {
  const LayerDefinition layer = TestDecoder(64, 4, 32);
  const RuntimeTraits traits;
  Bytes last_kept = Bytes::Of(int64_t{1} << 40);
  Bytes last_parameters = last_kept;
  for (const Precision precision :
       {Precision::kFp8Blockwise, Precision::kMxfp8, Precision::kFp8Current, Precision::kNvfp4}) {
    const LayerMemory memory = MemoryOf(layer, traits, {}, 3.0, precision);
    EXPECT_LE(memory.kept, last_kept);
    EXPECT_LE(memory.parameters, last_parameters);
    last_kept = memory.kept;
    last_parameters = memory.parameters;
  }
}

TEST(MemoryOfLayer, MomentsOfTwoBytesAreHalfOfThoseOfFour) {
  const LayerDefinition layer = TestDecoder(64, 4, 32);
  RuntimeTraits traits;
  const LayerMemory four = MemoryOf(layer, traits, {});
  traits.moment_bytes = 2;
  EXPECT_EQ(MemoryOf(layer, traits, {}).optimizer_states * 2, four.optimizer_states);
}

// A decoder of hidden size 64 with feed-forward size 256 and four heads of 16: with rank 2 its
// attention has 2 (2 * 64 + 4 * 64) = 768 elements of adapters. Everything else keeps its 2 bytes
// and nothing more.
TEST(MemoryOfLayer, FrozenWeightsHaveNoStates) {
  LayerDefinition layer = TestDecoder(64, 4, 32);
  const LayerMemory whole = MemoryOf(layer, RuntimeTraits(), {});
  const int64_t count = layer.parameter_count;
  layer.frozen = true;
  const LayerMemory frozen = MemoryOf(layer, RuntimeTraits(), {});
  EXPECT_EQ(frozen.gradients + frozen.optimizer_states + frozen.master_parameters, Bytes());
  EXPECT_EQ(frozen.parameters, whole.parameters);
  EXPECT_LT(frozen.kept, whole.kept);
  layer.attention_adapter_rank = 2;
  layer = *LayerDefinition::Create(layer, "layer");
  EXPECT_EQ(layer.parameter_count, count);
  EXPECT_EQ(AdapterElements(layer), 768);
  const LayerMemory adapted = MemoryOf(layer, RuntimeTraits(), {});
  EXPECT_EQ(adapted.optimizer_states, Bytes::Of(8 * 768));
  EXPECT_EQ(adapted.gradients, Bytes::Of(2 * 768));
  EXPECT_EQ(adapted.parameters - frozen.parameters, Bytes::Of(2 * 768));
  EXPECT_GT(adapted.kept, frozen.kept);
  EXPECT_LE(adapted.kept, whole.kept);
}

// Sharded over four ranks each has a quarter, and gathers all of it for a pass.
TEST(MemoryOfLayer, FrozenWeightsAreShardedLikeOthers) {
  LayerDefinition layer = TestDecoder(64, 4, 32);
  layer.frozen = true;
  Strategy strategy;
  strategy.data_parallel_degree = 4;
  strategy.sharding_level = ShardingLevel::kParameters;
  const LayerMemory sharded = MemoryOf(layer, RuntimeTraits(), strategy);
  const LayerMemory alone = MemoryOf(layer, RuntimeTraits(), {});
  EXPECT_EQ(sharded.parameters * 4, alone.parameters);
  EXPECT_GE(sharded.gathered, alone.parameters);
}

// Eight experts on eight ranks: each holds one whole, which no other has, and shards the rest over
// all. Trained or frozen, the same bytes of parameters in 16 bits.
TEST(MemoryOfLayer, FrozenExpertsAreShardedOverTheRanksThatHaveThem) {
  LayerDefinition layer = TestDecoder(64, 4, 32);
  layer.feed_forward_size = 0;
  layer.parameter_count = 0;
  layer.expert_count = 8;
  layer.experts_per_token = 2;
  layer.expert_feed_forward_size = 256;
  layer = *LayerDefinition::Create(layer, "layer");
  for (const int expert : {1, 2, 8}) {
    Strategy strategy{.data_parallel_degree = 8};
    strategy.expert_parallel_degree = expert;
    strategy.sharding_level = ShardingLevel::kParameters;
    layer.frozen = false;
    const LayerMemory trained = MemoryOf(layer, RuntimeTraits(), strategy);
    const LayerMemory narrow = MemoryOf(layer, RuntimeTraits(), strategy, 1.0, Precision::kMxfp8);
    layer.frozen = true;
    EXPECT_EQ(MemoryOf(layer, RuntimeTraits(), strategy).parameters, trained.parameters);
    EXPECT_EQ(MemoryOf(layer, RuntimeTraits(), strategy, 1.0, Precision::kMxfp8).parameters,
              narrow.parameters);
  }
}

// Without sharded parameters, a runtime that holds shards between steps holds those of frozen
// weights too: a quarter of 4 bytes, and the whole ones from the first to the last pass.
TEST(MemoryOfLayer, HoldsTheShardsOfFrozenWeightsBetweenSteps) {
  LayerDefinition layer = TestDecoder(64, 4, 32);
  layer.frozen = true;
  Strategy strategy{.data_parallel_degree = 4};
  strategy.sharding_level = ShardingLevel::kOptimizer;
  const LayerMemory memory =
      MemoryOf(layer, *FindRuntime("torch"), strategy, 1.0, Precision::kFp32);
  EXPECT_EQ(memory.gathered_all_time, Bytes::Of(4 * layer.parameter_count));
  EXPECT_EQ(memory.parameters, Bytes::Of(layer.parameter_count));
}

// A layer that a recipe leaves in 16 bits is one of bf16.
TEST(MemoryOfLayer, WideProductsQuantiseNothing) {
  LayerDefinition layer = TestDecoder(64, 4, 32);
  layer.wide_products = true;
  const LayerMemory wide = MemoryOf(layer, RuntimeTraits(), {}, 1.0, Precision::kNvfp4);
  const LayerMemory bf16 = MemoryOf(layer, RuntimeTraits(), {}, 1.0, Precision::kBf16);
  EXPECT_EQ(wide.parameters, bf16.parameters);
  EXPECT_EQ(wide.kept, bf16.kept);
  EXPECT_EQ(wide.running, bf16.running);
}

}  // namespace
}  // namespace parplan
