#include "planner/check/memory_replay.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/support/group_size_dice.h"

namespace parplan {
namespace {

LayerMemory RandomReplayedLayer(std::mt19937& random) {
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
  layer.step = Bytes::Of(2 * size(random));
  layer.bucket = Bytes::Of(size(random));
  layer.pass_gradients = Bytes::Of(size(random));
  layer.weight_gradients = Bytes::Of(size(random));
  return layer;
}

// Every schedule, with uneven chunks, ragged last groups and few micro-batches.
TEST(ReplayMemory, FindsTheItemsThatTheFormulasFind) {
  std::mt19937 random(3);
  const auto below = [&random](int end) { return static_cast<int>(random() % end); };
  for (int trial = 0; trial < 4000; ++trial) {
    RankPlace place;
    place.pipeline_parallel_degree = 1 + below(6);
    place.stage_index = below(place.pipeline_parallel_degree);
    place.micro_batch_count = 1 + below(20);
    place.schedule = static_cast<Schedule>(1 + below(kScheduleCount));
    if (place.schedule == Schedule::kInterleaved) place.virtual_stage_count = 1 + below(4);
    place.micro_batch_group_size = DrawGroupSize(
        place.pipeline_parallel_degree, place.virtual_stage_count, place.micro_batch_count, random);
    place.communicator_count = below(5);
    RuntimeTraits runtime;
    runtime.keep_stage_outputs = below(2) == 0;
    runtime.expandable_segments = below(2) == 0;
    runtime.makes_gradients_in_step = below(2) == 0;
    runtime.free_block_share = 0.25 * below(5);
    runtime.gradient_bucket = Bytes::Of(below(3000));
    std::vector<LayerMemoryRun> runs;
    std::vector<LayerMemoryRun> layers;
    for (int chunk = 0; chunk < place.virtual_stage_count; ++chunk) {
      for (int i = 0; i <= below(3); ++i) {
        runs.push_back({RandomReplayedLayer(random), 1 + below(3), chunk});
        runs.back().layer.message = Bytes::Of(1 + below(100));
        for (int layer = 0; layer < runs.back().layer_count; ++layer) {
          layers.push_back({runs.back().layer, 1, chunk});
        }
      }
    }
    const std::string where = absl::StrCat(
        "trial ", trial, ": stage ", place.stage_index, " of ", place.pipeline_parallel_degree,
        ", ", place.virtual_stage_count, " chunks, ", place.micro_batch_count,
        " micro-batches in groups of ", place.micro_batch_group_size);
    const RankMemory memory = MemoryOfRank(runs, place, runtime, Coefficients());
    const ReplayedMemory replayed = ReplayMemory(layers, place, runtime, Coefficients());
    ASSERT_EQ(memory.total, replayed.total) << where;
    EXPECT_EQ(memory.tensor_bound, replayed.tensor_bound) << where;
    EXPECT_EQ(memory.in_flight_micro_batch_count, replayed.in_flight_micro_batch_count) << where;
    // The bound is one.
    EXPECT_GE(memory.tensor_bound,
              memory.allocated.Total() - memory.allocated[MemoryItemKind::kWorkspace])
        << where;
    for (Bytes item : memory.total.size) EXPECT_GE(item, Bytes()) << where;
  }
}

// Two devices, one chunk each, two micro-batches: the first device keeps both when its
// first backward pass begins, and frees its second layer before the first layer's turn.
TEST(ReplayMemory, OfAHandWorkedExample) {
  LayerMemory first;
  first.kept = Bytes::Of(10);
  first.running = Bytes::Of(100);
  LayerMemory second;
  second.kept = Bytes::Of(30);
  second.running = Bytes::Of(60);
  RankPlace place;
  place.pipeline_parallel_degree = 2;
  place.micro_batch_count = 2;
  const ReplayedMemory replayed =
      ReplayMemory({{first, 1, 0}, {second, 1, 0}}, place, RuntimeTraits(), Coefficients());
  // 2 x 40 + 60 in the second layer, 2 x 40 - 30 + 100 in the first.
  EXPECT_EQ(replayed.total[MemoryItemKind::kActivations], Bytes::Of(50));
  EXPECT_EQ(replayed.total[MemoryItemKind::kTransient], Bytes::Of(100));
  EXPECT_EQ(replayed.tensor_bound, Bytes::Of(80 + 100));
  EXPECT_EQ(replayed.in_flight_micro_batch_count, 2);
}

// The last of three devices under ZB-H1, four micro-batches. When its third backward pass begins,
// three micro-batches are in flight, and none has had its weight pass: three times 10 + 30 kept,
// and three times 4 + 5 gradients for weights. No layer frees anything, so the second one, which
// needs 60 to the first one's 50, decides. The first device needs what that of 1F1B needs.
TEST(ReplayMemory, OfSplitBackwardPassesKeepsAllUntilTheWeightPass) {
  LayerMemory first;
  first.kept = Bytes::Of(10);
  first.running = Bytes::Of(50);
  first.weight_gradients = Bytes::Of(4);
  LayerMemory second;
  second.kept = Bytes::Of(30);
  second.running = Bytes::Of(60);
  second.weight_gradients = Bytes::Of(5);
  RankPlace place;
  place.schedule = Schedule::kZeroBubble;
  place.pipeline_parallel_degree = 3;
  place.stage_index = 2;
  place.micro_batch_count = 4;
  const std::vector<LayerMemoryRun> layers = {{first, 1, 0}, {second, 1, 0}};
  const ReplayedMemory last = ReplayMemory(layers, place, RuntimeTraits(), Coefficients());
  EXPECT_EQ(last.total[MemoryItemKind::kActivations], Bytes::Of(3 * 40 + 3 * 9));
  EXPECT_EQ(last.total[MemoryItemKind::kTransient], Bytes::Of(60));
  EXPECT_EQ(last.in_flight_micro_batch_count, 3);
  place.stage_index = 0;
  const ReplayedMemory front = ReplayMemory(layers, place, RuntimeTraits(), Coefficients());
  place.schedule = Schedule::kOneForwardOneBackward;
  EXPECT_EQ(front.total, ReplayMemory(layers, place, RuntimeTraits(), Coefficients()).total);
}

// The first of two devices with two chunks, four micro-batches in one group: 2 (2 - 1) + 4 + 1
// passes are kept, and two activations wait beside the one that arrives.
TEST(ReplayMemory, OfAGroupHasTheMessagesThatWait) {
  LayerMemory layer;
  layer.kept = Bytes::Of(10);
  layer.message = Bytes::Of(3);
  RankPlace place;
  place.schedule = Schedule::kInterleaved;
  place.pipeline_parallel_degree = 2;
  place.virtual_stage_count = 2;
  place.micro_batch_count = 4;
  place.micro_batch_group_size = 4;
  const ReplayedMemory replayed =
      ReplayMemory({{layer, 1, 0}, {layer, 1, 1}}, place, RuntimeTraits(), Coefficients());
  EXPECT_EQ(replayed.total[MemoryItemKind::kActivations], Bytes::Of(70));
  EXPECT_EQ(replayed.total[MemoryItemKind::kTransient], Bytes::Of(2 * 3 + 2 * 3));
  EXPECT_EQ(replayed.tensor_bound, Bytes::Of(70 + 12));
}

}  // namespace
}  // namespace parplan
