#include "planner/cost/rank_memory.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "planner/model/layer_matrices.h"
#include "tests/planner/cost/hardware_of_tests.h"

namespace parplan {
namespace {

LayerDefinition Table(LayerKind kind, int hidden, int vocabulary, int sequence, bool tied) {
  LayerDefinition layer;
  layer.layer_definition_id = "table";
  layer.kind = kind;
  layer.hidden_size = hidden;
  layer.vocabulary_size = vocabulary;
  layer.sequence_length = sequence;
  layer.tied_embedding = tied;
  return LayerDefinition::Create(layer, "layer").value();
}

LayerMemory MemoryOf(const LayerDefinition& layer, const RuntimeTraits& traits,
                     const Strategy& strategy, double samples = 1.0,
                     Precision precision = Precision::kBf16, bool copies_tied_table = false) {
  return MemoryOfLayer(FootprintOf(layer, precision, traits, strategy, copies_tied_table),
                       precision, Optimizer::kAdam, traits, strategy, samples);
}

RankPlace Place(int stages, int stage, int64_t micro_batches,
                Schedule schedule = Schedule::kOneForwardOneBackward, int virtual_stages = 1) {
  RankPlace place;
  place.schedule = schedule;
  place.pipeline_parallel_degree = stages;
  place.stage_index = stage;
  place.virtual_stage_count = virtual_stages;
  place.micro_batch_count = micro_batches;
  return place;
}

Bytes Allocated(const std::vector<LayerMemoryRun>& runs, const RankPlace& place,
                const RuntimeTraits& traits) {
  return MemoryOfRank(runs, place, traits, Coefficients()).allocated.Total();
}

// A layer that leaves `kept` bytes.
LayerMemory Leaves(int64_t kept) {
  LayerMemory layer;
  layer.kept = Bytes::Of(kept);
  return layer;
}

int64_t InFlight(const RankPlace& place) {
  std::vector<LayerMemoryRun> runs;
  for (int i = 0; i < place.virtual_stage_count; ++i) runs.push_back({Leaves(1), 1, i});
  return MemoryOfRank(runs, place, RuntimeTraits(), Coefficients()).in_flight_micro_batch_count;
}

TEST(MemoryOfRank, KeepsAsManyMicroBatchesAsThereAreStagesBehindUnder1F1BAndAllUnderGpipe) {
  for (int stages : {2, 3, 4, 8}) {
    for (int stage = 0; stage < stages; ++stage) {
      for (int64_t m : {1, 2, 5, 8, 32}) {
        EXPECT_EQ(InFlight(Place(stages, stage, m)), std::min<int64_t>(stages - stage, m));
        EXPECT_EQ(InFlight(Place(stages, stage, m, Schedule::kGpipe)), m);
      }
    }
  }
  EXPECT_EQ(InFlight(Place(1, 0, 16, Schedule::kInterleaved, 4)), 1);
}

// Device 0 of 4 with 2 chunks runs F0 x4, F1 x4, F0 x4 while the backward passes are
// still of chunk 1: before the first backward pass 7 of chunk 0 and 4 of chunk 1, three
// passes later 8 of chunk 0 and 3 of chunk 1.
TEST(MemoryOfRank, OfAHeavyFirstChunkPeaksAfterTheFirstBackwardPass) {
  const RankPlace place = Place(4, 0, 16, Schedule::kInterleaved, 2);
  const RankMemory heavy_first = MemoryOfRank({{{Leaves(10), 1, 0}, {Leaves(1), 1, 1}}}, place,
                                              RuntimeTraits(), Coefficients());
  EXPECT_EQ(heavy_first.allocated[MemoryItemKind::kActivations], Bytes::Of(83));
  EXPECT_EQ(heavy_first.in_flight_micro_batch_count, 8);
  const RankMemory heavy_last = MemoryOfRank({{{Leaves(1), 1, 0}, {Leaves(10), 1, 1}}}, place,
                                             RuntimeTraits(), Coefficients());
  EXPECT_EQ(heavy_last.allocated[MemoryItemKind::kActivations], Bytes::Of(7 + 40));

  // The memory that a chunk needs while it runs is added to what is kept at that moment: the
  // backward passes of chunk 0 find 8 + 1 of 11 in flight.
  LayerMemory embedding = Leaves(10);
  embedding.running = Bytes::Of(1000);
  const RankMemory with_running = MemoryOfRank({{{embedding, 1, 0}, {Leaves(1), 1, 1}}}, place,
                                               RuntimeTraits(), Coefficients());
  EXPECT_EQ(with_running.allocated[MemoryItemKind::kTransient], Bytes::Of(1000));
  EXPECT_LE(with_running.allocated[MemoryItemKind::kActivations], Bytes::Of(83));
  EXPECT_GE(with_running.tensor_bound,
            with_running.allocated.Total() - with_running.allocated[MemoryItemKind::kWorkspace]);
}

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

TEST(FootprintOf, SplitsMatricesAndPaddedTablesAndKeepsNormsWhole) {
  const RuntimeTraits traits = *FindRuntime("megatron-core");
  Strategy strategy;
  strategy.tensor_parallel_degree = 4;
  const auto count = [&](const LayerDefinition& layer, bool copies = false) {
    return FootprintOf(layer, Precision::kBf16, traits, strategy, copies).parameter_count;
  };
  EXPECT_EQ(count(TestDecoder(1024, 16, 512)), 12 * 1024 * 1024 / 4 + 2 * 1024);
  EXPECT_EQ(count(Table(LayerKind::kEmbedding, 512, 50257, 128, false)), 50688 / 4 * 512);
  EXPECT_EQ(count(Table(LayerKind::kHead, 512, 50257, 128, true)), 512);
  EXPECT_EQ(count(Table(LayerKind::kHead, 512, 50257, 128, true), true), 50688 / 4 * 512 + 512);
  EXPECT_EQ(count(Table(LayerKind::kHead, 512, 50257, 128, false)), 50688 / 4 * 512 + 512);
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
  const LayerDefinition table = Table(LayerKind::kEmbedding, 8, 100, 4, false);
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
  const LayerDefinition head = Table(LayerKind::kHead, 64, 100, 4, false);
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

// 175B of Korthikanti et al., table 3: t = 8, P = 8, micro-batch 1, sequence
// parallelism and selective recomputation. The first of 8 stages has 12 layers and 8
// micro-batches in flight.
TEST(MemoryOfRank, OfAHandWorkedExample) {
  RuntimeTraits traits = *FindRuntime("megatron-2021");
  traits.fused_gradient_accumulation = true;
  traits.gradient_bytes = 4;
  Strategy strategy;
  strategy.tensor_parallel_degree = 8;
  strategy.sequence_parallel = true;
  strategy.recompute_level = RecomputeLevel::kSelective;
  const LayerDefinition layer = TestDecoder(12288, 96, 2048);
  const LayerMemory memory = MemoryOf(layer, traits, strategy);
  const RankMemory rank =
      MemoryOfRank({{{memory, 12, 0}}}, Place(8, 0, 64), traits, Coefficients());
  // 12 h^2 / 8 + 2 h = 226,492,416 + 24,576 parameters a layer.
  const int64_t parameters = 12 * (int64_t{12} * 12288 * 12288 / 8 + 2 * 12288);
  EXPECT_EQ(rank.allocated[MemoryItemKind::kParameters].count(), 2 * parameters);
  EXPECT_EQ(rank.allocated[MemoryItemKind::kGradients].count(), 4 * parameters);
  EXPECT_EQ(rank.allocated[MemoryItemKind::kOptimizerStates].count(), 8 * parameters);
  EXPECT_EQ(rank.allocated[MemoryItemKind::kMasterParameters].count(), 4 * parameters);
  // 34 s h / t = 106,954,752 bytes a layer and micro-batch; 96 of them.
  EXPECT_EQ(rank.allocated[MemoryItemKind::kActivations].count(), int64_t{96} * 106954752);
  // Selective recomputation restores 5 a s^2 / t = 251,658,240, and the gradients inside: e s h /
  // t, and those of scores before and after softmax less the feed-forward tensors that are gone:
  // 6,291,456 + 201,326,592 - 50,331,648.
  EXPECT_EQ(rank.allocated[MemoryItemKind::kTransient].count(),
            251658240 + 6291456 + 201326592 - 50331648);
}

// The peak by going through the backward passes one by one.
Bytes PeakOfTheTwin(const std::vector<LayerMemoryRun>& runs, const RankPlace& place) {
  std::vector<LayerMemory> layers;
  for (const LayerMemoryRun& run : runs) {
    for (int i = 0; i < run.layer_count; ++i) layers.push_back(run.layer);
  }
  Bytes states;
  Bytes kept;
  for (const LayerMemory& layer : layers) {
    states += layer.states() + layer.gathered_all_time;
    kept += layer.kept;
  }
  const int64_t in_flight = std::min<int64_t>(place.pipeline_parallel_degree - place.stage_index,
                                              place.micro_batch_count);
  Bytes peak;
  Bytes live = kept * in_flight;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    peak = std::max(peak,
                    live + layer->running + layer->logits + layer->gathered + layer->message * 2);
    live -= layer->kept;
  }
  return states + peak;
}

LayerMemory RandomLayer(std::mt19937& random) {
  std::uniform_int_distribution<int64_t> size(0, 1000);
  LayerMemory layer;
  layer.parameters = Bytes::Of(size(random));
  layer.gradients = Bytes::Of(size(random));
  layer.optimizer_states = Bytes::Of(size(random));
  layer.master_parameters = Bytes::Of(size(random));
  layer.kept = Bytes::Of(size(random));
  layer.kept_are_checkpoints = size(random) % 2 == 0;
  layer.running = Bytes::Of(4 * size(random));
  layer.logits = Bytes::Of(size(random));
  layer.gathered = Bytes::Of(size(random));
  layer.gathered_all_time = Bytes::Of(size(random));
  layer.message = Bytes::Of(size(random));
  return layer;
}

TEST(MemoryOfRank, IsThePeakOfTheTwinThatGoesThroughAllBackwardPasses) {
  std::mt19937 random(7);
  const RuntimeTraits traits;
  Coefficients coefficients;
  coefficients[Coefficient::kWorkspaceMemory] = 0.0;
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<LayerMemoryRun> runs;
    for (int i = 0; i < 1 + trial % 4; ++i) {
      runs.push_back({RandomLayer(random), 1 + static_cast<int>(random() % 5), 0});
    }
    RankPlace place = Place(1 + trial % 3, 0, 1 + trial % 7);
    const RankMemory rank = MemoryOfRank(runs, place, traits, coefficients);
    EXPECT_EQ(rank.allocated.Total(), PeakOfTheTwin(runs, place));
    for (Bytes item : rank.total.size) EXPECT_GE(item, Bytes());
  }
}

// The same where gradients are made by the first backward pass of the step.
Bytes PeakOfTheTwinThatMakesGradients(const std::vector<LayerMemoryRun>& runs,
                                      const RankPlace& place) {
  std::vector<LayerMemory> layers;
  for (const LayerMemoryRun& run : runs) {
    for (int i = 0; i < run.layer_count; ++i) layers.push_back(run.layer);
  }
  Bytes states;
  Bytes kept;
  for (const LayerMemory& layer : layers) {
    states += layer.states() - layer.gradients + layer.gathered_all_time;
    kept += layer.kept;
  }
  const int64_t depth = place.pipeline_parallel_degree - place.stage_index;
  Bytes gradients;
  Bytes peak;
  for (int64_t passed = 0; passed < place.micro_batch_count; ++passed) {
    Bytes live = kept * std::min(depth, place.micro_batch_count - passed);
    for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
      peak = std::max(peak, gradients + live + layer->transient());
      live -= layer->kept;
      if (passed == 0) gradients += layer->gradients;
    }
  }
  // The optimizer's step needs nothing else, and no whole parameters.
  Bytes gathered;
  for (const LayerMemory& layer : layers) gathered += layer.gathered_all_time;
  return states + std::max(peak, gradients - gathered);
}

TEST(MemoryOfRank, OfTorchHasNoGradientsBeforeTheFirstBackwardPass) {
  std::mt19937 random(13);
  RuntimeTraits traits;
  traits.makes_gradients_in_step = true;
  EXPECT_TRUE(FindRuntime("torch")->makes_gradients_in_step);
  Coefficients coefficients;
  coefficients[Coefficient::kWorkspaceMemory] = 0.0;
  bool is_less = false;
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<LayerMemoryRun> runs;
    for (int i = 0; i < 1 + trial % 4; ++i) {
      runs.push_back({RandomLayer(random), 1 + static_cast<int>(random() % 5), 0});
    }
    const RankPlace place = Place(1 + trial % 3, 0, 1 + trial % 5);
    const RankMemory rank = MemoryOfRank(runs, place, traits, coefficients);
    EXPECT_EQ(rank.allocated.Total(), PeakOfTheTwinThatMakesGradients(runs, place)) << trial;
    for (Bytes item : rank.total.size) EXPECT_GE(item, Bytes());
    const RankMemory always = MemoryOfRank(runs, place, RuntimeTraits(), coefficients);
    EXPECT_LE(rank.allocated.Total(), always.allocated.Total());
    EXPECT_EQ(rank.tensor_bound, always.tensor_bound);
    is_less |= rank.allocated.Total() < always.allocated.Total();
  }
  EXPECT_TRUE(is_less);
}

TEST(MemoryOfRank, DoesNotChangeWhenARunIsSplit) {
  std::mt19937 random(11);
  const RuntimeTraits traits = *FindRuntime("megatron-deepspeed");
  for (int trial = 0; trial < 100; ++trial) {
    LayerMemory layer = RandomLayer(random);
    layer.step = Bytes::Of(trial * 20);
    layer.bucket = Bytes::Of(trial * 7);
    const RankPlace place = Place(4, trial % 4, 8);
    const LayerMemory other = RandomLayer(random);
    const RankMemory whole =
        MemoryOfRank({{{layer, 9, 0}, {other, 1, 0}}}, place, traits, Coefficients());
    const RankMemory split = MemoryOfRank({{{layer, 2, 0}, {layer, 7, 0}, {other, 1, 0}}}, place,
                                          traits, Coefficients());
    EXPECT_EQ(whole.total, split.total);
    EXPECT_EQ(whole.allocated, split.allocated);
  }
}

TEST(MemoryOfRank, SeparatesBothViewsByWhatLiesOutsideTensors) {
  const RuntimeTraits traits = *FindRuntime("megatron-deepspeed");
  Strategy strategy;
  strategy.data_parallel_degree = 4;
  strategy.sharding_level = ShardingLevel::kOptimizer;
  const LayerMemory layer = MemoryOf(TestDecoder(1024, 16, 512), traits, strategy);
  RankPlace place = Place(2, 0, 8);
  place.communicator_count = 3;
  Coefficients coefficients;
  const RankMemory rank = MemoryOfRank({{{layer, 4, 0}}}, place, traits, coefficients);
  const MemoryItems& total = rank.total;
  EXPECT_EQ(total.Total() - rank.allocated.Total(), total[MemoryItemKind::kContext] +
                                                        total[MemoryItemKind::kCommunicators] +
                                                        total[MemoryItemKind::kFragmentation]);
  EXPECT_EQ(total[MemoryItemKind::kCommunicators].count(),
            3 * static_cast<int64_t>(coefficients[Coefficient::kCommunicatorMemory]));
  EXPECT_GT(rank.released_on_demand, Bytes());
  EXPECT_GE(total[MemoryItemKind::kFragmentation], rank.released_on_demand);
  RuntimeTraits expandable = traits;
  expandable.expandable_segments = true;
  EXPECT_EQ(MemoryOfRank({{{layer, 4, 0}}}, place, expandable, coefficients).total.Total(),
            total.Total() - rank.released_on_demand);
}

TEST(MemoryOfRank, IsThatOfTheOptimizerStepWhereItNeedsMore) {
  RuntimeTraits traits = *FindRuntime("megatron-2021");
  traits.gradient_bytes = 2;
  traits.widens_gradients_in_step = true;
  const LayerDefinition layer = TestDecoder(4096, 32, 8);  // hardly an activation
  const LayerMemory memory = MemoryOf(layer, traits, Strategy());
  const RankMemory rank = MemoryOfRank({{{memory, 8, 0}}}, Place(1, 0, 1), traits, Coefficients());
  EXPECT_TRUE(rank.peak_in_optimizer_step);
  EXPECT_EQ(rank.allocated[MemoryItemKind::kTransient].count(), 8 * 4 * layer.parameter_count);
  EXPECT_EQ(rank.allocated[MemoryItemKind::kActivations], Bytes());
}

TEST(MemoryOfRank, OfTheLastStageHasLogitsAndACopyOfTheTiedTable) {
  const RuntimeTraits traits = *FindRuntime("megatron-core");
  const LayerDefinition head = Table(LayerKind::kHead, 512, 50257, 1024, true);
  const std::vector<LayerMemoryRun> runs = {
      {MemoryOf(TestDecoder(512, 8, 1024), traits, Strategy(), 4), 3, 0},
      {MemoryOf(head, traits, Strategy(), 4, Precision::kBf16, true), 1, 0}};
  const RankMemory rank = MemoryOfRank(runs, Place(4, 3, 8), traits, Coefficients());
  EXPECT_EQ(rank.allocated[MemoryItemKind::kLogits].count(), int64_t{6} * 4 * 1024 * 50304);
  EXPECT_EQ(rank.allocated[MemoryItemKind::kParameters].count(),
            2 * (3 * (12 * 512 * 512 + 2 * 512) + 50304 * 512 + 512));
}

// More saving never needs more, over sharding, recomputation and parallelism. The
// exceptions are true: a layer of sharded parameters is whole while it runs, and the
// next one with it, so that few layers need more sharded than not; there have to be
// enough of them.
TEST(MemoryOfRank, NeverRisesWithMoreSaving) {
  const LayerDefinition layer = TestDecoder(4096, 32, 2048);
  for (const char* runtime : {"parplan", "megatron-2021", "megatron-core", "fsdp"}) {
    const RuntimeTraits traits = *FindRuntime(runtime);
    const auto bytes = [&](const Strategy& strategy) {
      return Allocated({{MemoryOf(layer, traits, strategy, 2), 24, 0}}, Place(2, 0, 8), traits);
    };
    for (int t : {1, 2, 4}) {
      Strategy base;
      base.tensor_parallel_degree = t;
      base.data_parallel_degree = 4;
      Bytes before = Bytes::Max();
      for (ShardingLevel level : {ShardingLevel::kNone, ShardingLevel::kOptimizer,
                                  ShardingLevel::kGradients, ShardingLevel::kParameters}) {
        Strategy strategy = base;
        strategy.sharding_level = level;
        EXPECT_LE(bytes(strategy), before) << runtime;
        before = bytes(strategy);
        for (RecomputeLevel recompute : {RecomputeLevel::kSelective, RecomputeLevel::kFull}) {
          Strategy recomputing = strategy;
          recomputing.recompute_level = recompute;
          EXPECT_LE(bytes(recomputing), bytes(strategy)) << runtime;
        }
        Strategy wider = strategy;
        wider.tensor_parallel_degree *= 2;
        EXPECT_LE(bytes(wider), bytes(strategy)) << runtime;
        Strategy sequence = strategy;
        sequence.sequence_parallel = true;
        EXPECT_LE(bytes(sequence), bytes(strategy)) << runtime;
        Strategy context = strategy;
        context.context_parallel_degree = 2;
        EXPECT_LE(bytes(context), bytes(strategy)) << runtime;
        Strategy more_data = strategy;
        more_data.data_parallel_degree *= 2;
        EXPECT_LE(bytes(more_data), bytes(strategy)) << runtime;
      }
    }
  }
}

TEST(MemoryOfRank, FallsFromStageToStageAndRisesWithMicroBatches) {
  const RuntimeTraits traits;
  const LayerMemory layer = MemoryOf(TestDecoder(1024, 16, 1024), traits, Strategy());
  for (Schedule schedule :
       {Schedule::kOneForwardOneBackward, Schedule::kGpipe, Schedule::kInterleaved}) {
    const int virtual_stages = schedule == Schedule::kInterleaved ? 2 : 1;
    std::vector<LayerMemoryRun> runs;
    for (int i = 0; i < virtual_stages; ++i) runs.push_back({layer, 4 / virtual_stages, i});
    for (int stage = 0; stage < 4; ++stage) {
      const Bytes here = Allocated(runs, Place(4, stage, 16, schedule, virtual_stages), traits);
      if (stage > 0) {
        EXPECT_LE(here, Allocated(runs, Place(4, stage - 1, 16, schedule, virtual_stages), traits));
      }
      EXPECT_LE(Allocated(runs, Place(4, stage, 8, schedule, virtual_stages), traits), here);
    }
  }
}

TEST(CommunicatorCount, CountsTheGroupsOfARank) {
  Strategy strategy;
  EXPECT_EQ(CommunicatorCount(strategy, 1, true), 0);
  strategy.data_parallel_degree = 8;
  EXPECT_EQ(CommunicatorCount(strategy, 1, true), 2);  // world, data
  strategy.tensor_parallel_degree = 4;
  // World, tensor, data, model; pipeline and two neighbours; the table's.
  EXPECT_EQ(CommunicatorCount(strategy, 1, false), 4);
  EXPECT_EQ(CommunicatorCount(strategy, 8, false), 7);
  EXPECT_EQ(CommunicatorCount(strategy, 8, true), 8);
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
  // Which changes nothing of a precision that does not quantise.
  EXPECT_EQ(MemoryOf(layer, traits, {}).parameters, wide.parameters);
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
