#include "planner/cost/rank_memory.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/planner/cost/hardware_of_tests.h"
#include "tests/planner/cost/layer_memory_of.h"

namespace parplan {
namespace {

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
        EXPECT_EQ(InFlight(Place(stages, stage, m, Schedule::kZeroBubble)),
                  std::min<int64_t>(stages, m));
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
  layer.largest_tensor = Bytes::Of(size(random));
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

// Blocks of gradients that passes make and free stay in the allocator until it has no others, so
// the peak that is shown has them and the bound has not.
TEST(MemoryOfRank, ReturnsTheGradientsOfAPassOnDemand) {
  const RuntimeTraits traits = *FindRuntime("nanotron");
  Strategy strategy;
  strategy.data_parallel_degree = 4;
  strategy.sharding_level = ShardingLevel::kOptimizer;
  const LayerMemory layer = MemoryOf(TestDecoder(1024, 16, 4096), traits, strategy);
  EXPECT_EQ(layer.pass_gradients, Bytes::Of(2 * (12 * 1024 * 1024 + 2 * 1024)));
  const auto rank = [&](const LayerMemory& one, const RuntimeTraits& runtime) {
    return MemoryOfRank({{{one, 4, 0}}}, Place(2, 0, 8), runtime, Coefficients());
  };
  const RankMemory with = rank(layer, traits);
  LayerMemory none = layer;
  none.pass_gradients = Bytes();
  const RankMemory without = rank(none, traits);
  EXPECT_EQ(with.released_on_demand - without.released_on_demand, layer.pass_gradients * 4);
  EXPECT_EQ(with.total.Total() - without.total.Total(), layer.pass_gradients * 4);
  EXPECT_EQ(with.allocated, without.allocated);
  EXPECT_EQ(with.tensor_bound, without.tensor_bound);
  RuntimeTraits expandable = traits;
  expandable.expandable_segments = true;
  EXPECT_EQ(rank(layer, expandable).released_on_demand, Bytes());
}

// Three quarters of 16 MiB are in the driver's figure beside the tensors, but not in the bound,
// because the allocator returns free blocks before it fails.
TEST(MemoryOfRank, FreeBlocksAreAShareOfTheLargestTensor) {
  RuntimeTraits traits = *FindRuntime("torch");
  LayerMemory layer;
  layer.kept = Bytes::Of(100 << 20);
  layer.largest_tensor = Bytes::Of(3 << 20);
  LayerMemory head = layer;
  head.largest_tensor = Bytes::Of(16 << 20);
  const auto rank = [&](double share) {
    traits.free_block_share = share;
    return MemoryOfRank({{{layer, 2, 0}, {head, 1, 0}}}, Place(1, 0, 1), traits, Coefficients());
  };
  const RankMemory with = rank(0.75);
  const RankMemory without = rank(0.0);
  const Bytes expected = Bytes::Of(12 << 20);
  EXPECT_EQ(with.total.Total() - without.total.Total(), expected);
  EXPECT_EQ(
      with.total[MemoryItemKind::kFragmentation] - without.total[MemoryItemKind::kFragmentation],
      expected);
  EXPECT_EQ(with.released_on_demand - without.released_on_demand, expected);
  EXPECT_EQ(with.allocated, without.allocated);
  EXPECT_EQ(with.tensor_bound, without.tensor_bound);
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
  const LayerDefinition head = TableLayer(LayerKind::kHead, 512, 50257, 1024, true);
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

// Gradients are summed over the ranks that share tokens by a communicator of their own, whether or
// not other ranks have other samples.
TEST(CommunicatorCount, RanksThatShareTokensHaveOneForTokensAndOneForGradients) {
  EXPECT_EQ(CommunicatorCount({.context_parallel_degree = 4}, 1, false), 3);
  EXPECT_EQ(CommunicatorCount({.data_parallel_degree = 2, .context_parallel_degree = 4}, 1, false),
            4);
}

}  // namespace
}  // namespace parplan
