// What Megatron Core and Transformer Engine hold beside gradients and logits, by hand.

#include <gtest/gtest.h>

#include <vector>

#include "planner/cost/layer_memory.h"
#include "planner/cost/rank_memory.h"
#include "tests/planner/cost/hardware_of_tests.h"
#include "tests/planner/cost/layer_memory_of.h"

namespace parplan {
namespace {

const RuntimeTraits& Core() { return *FindRuntime("megatron-core"); }

// Products that add to the buffer return a 16-bit tensor for each shape of the four linear maps of
// a decoder: queries, keys and values, output, and both of the feed-forward part, 12 h^2 elements.
TEST(PlaceholderGradients, AreOneForEachShapeOfALayer) {
  const LayerDefinition layer = TestDecoder(1024, 16, 512);
  const Bytes all = Bytes::Of(2 * 12 * 1024 * 1024);
  EXPECT_EQ(MemoryOf(layer, Core(), Strategy()).placeholders, all);
  const Bytes half = MemoryOf(layer, Core(), {.tensor_parallel_degree = 2}).placeholders;
  EXPECT_EQ(half * 2, all);
  for (const char* runtime_id : {"parplan", "torch", "nanotron", "megatron-2021", "fsdp"}) {
    EXPECT_EQ(MemoryOf(layer, *FindRuntime(runtime_id), Strategy()).placeholders, Bytes())
        << runtime_id;
  }
}

// Layers of the same shapes share them.
TEST(PlaceholderGradients, ExistOnceOnARank) {
  const LayerMemory layer = MemoryOf(TestDecoder(1024, 16, 512), Core(), Strategy());
  const RankPlace place{.micro_batch_count = 1};
  const auto gradients = [&](int layer_count) {
    const std::vector<LayerMemoryRun> runs = {{.layer = layer, .layer_count = layer_count}};
    return MemoryOfRank(runs, place, Core(), Coefficients()).allocated[MemoryItemKind::kGradients];
  };
  EXPECT_EQ(gradients(1), layer.gradients + layer.placeholders);
  EXPECT_EQ(gradients(7), layer.gradients * 7 + layer.placeholders);
}

// That of the head exists while it runs: 512 x 128 columns of 1024.
TEST(PlaceholderGradients, OfTheHeadExistWhileItRuns) {
  const LayerDefinition head = TableLayer(LayerKind::kHead, 1024, 512 * 128, 512, false);
  RuntimeTraits without = Core();
  without.keeps_placeholder_gradients = false;
  EXPECT_EQ(MemoryOf(head, Core(), Strategy()).running,
            MemoryOf(head, without, Strategy()).running + Bytes::Of(int64_t{2} * 1024 * 512 * 128));
  EXPECT_EQ(MemoryOf(head, Core(), Strategy()).placeholders, Bytes());
}

// The ranks of sequence parallelism gather the input of the head for the gradient of its matrix,
// and make the gradient of all of it before they scatter that: 2 x 2 x 512 x 1024 bytes.
TEST(HeadMemory, GathersItsInputWithSequenceParallelism) {
  const LayerDefinition head = TableLayer(LayerKind::kHead, 1024, 512 * 128, 512, false);
  Strategy strategy{.tensor_parallel_degree = 4};
  const double split = ActivationBytesOf(head, Precision::kBf16, Core(), strategy).backward;
  strategy.sequence_parallel = true;
  const double gathered = ActivationBytesOf(head, Precision::kBf16, Core(), strategy).backward;
  EXPECT_EQ(gathered - split, 2.0 * 2.0 * 512 * 1024);
}

// Transformer Engine's loss writes the gradients of 16-bit logits over them: nothing is widened.
TEST(HeadMemory, LogitsBecomeTheirGradients) {
  const LayerDefinition head = TableLayer(LayerKind::kHead, 1024, 512 * 128, 512, false);
  RuntimeTraits traits = Core();
  traits.loss_bytes_per_logit = 2;
  const ActivationBytes bytes = ActivationBytesOf(head, Precision::kBf16, traits, Strategy());
  EXPECT_EQ(bytes.logits, 2.0 * 512 * 512 * 128);
  EXPECT_EQ(bytes.logits_tensor, bytes.logits);
  EXPECT_LT(bytes.logits, ActivationBytesOf(head, Precision::kBf16, Core(), Strategy()).logits);
}

}  // namespace
}  // namespace parplan
