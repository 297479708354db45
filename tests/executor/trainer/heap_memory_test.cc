// Bounds the memory of an allocator that places arrays in a range of addresses for each lifetime,
// as the CUDA back end's does.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "executor/device/comm/null_communicator.h"
#include "executor/device/kernels/array_pool.h"
#include "executor/device/kernels/block_heap.h"
#include "executor/device/kernels/kernel_libraries.h"
#include "executor/trainer/rank_trainer.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// Memory of the host, placed by a heap for each lifetime, or by one for both.
class HeapMemory : public DeviceMemory {
 public:
  explicit HeapMemory(bool keeps_lifetimes_apart) : keeps_apart_(keeps_lifetimes_apart) {}
  absl::StatusOr<void*> Allocate(Bytes size, Lifetime lifetime) override {
    absl::StatusOr<void*> data = inner_->Allocate(size, lifetime);
    if (!data.ok()) return data;
    const int heap = keeps_apart_ ? static_cast<int>(lifetime) : 0;
    places_[*data] = {heap, heaps_[heap].Take(size.count())};
    ends_[heap] = std::max(ends_[heap], heaps_[heap].end());
    return data;
  }
  void Free(void* data) override {
    const Place place = places_.at(data);
    places_.erase(data);
    heaps_[place.heap].Give(place.offset);
    inner_->Free(data);
  }
  bool reuses_freed() const override { return true; }
  // The sum of what each heap needed at most.
  Bytes Needed() const { return Bytes::Of(ends_[0] + ends_[1]); }

 private:
  struct Place {
    int heap = 0;
    int64_t offset = 0;
  };
  const bool keeps_apart_;
  const std::unique_ptr<DeviceMemory> inner_ = MakeHostMemory();
  std::array<BlockHeap, 2> heaps_;
  std::array<int64_t, 2> ends_ = {};
  std::map<void*, Place> places_;
};

struct Shape {
  FeedForwardKind kind;
  RecomputeLevel recompute_level;
  int64_t micro_batch_count;
  // Above kNone, over two data-parallel ranks of which one runs.
  ShardingLevel sharding_level = ShardingLevel::kNone;
};

// The proportions of GPT-1.3B's matrices, tokens and vocabulary, 64 times smaller.
absl::StatusOr<ModelSpec> ModelOf(FeedForwardKind kind) {
  const auto layer = [&](LayerKind layer_kind, const char* id) {
    LayerDefinition raw{
        .layer_definition_id = id, .kind = layer_kind, .hidden_size = 32, .sequence_length = 32};
    if (layer_kind == LayerKind::kDecoder) {
      raw.attention_head_count = 4;
      raw.feed_forward_size = 128;
      raw.feed_forward_kind = kind;
    } else {
      raw.vocabulary_size = 786;
    }
    return LayerDefinition::Create(raw, id);
  };
  PARPLAN_ASSIGN_OR_RETURN(LayerDefinition first, layer(LayerKind::kEmbedding, "embedding"));
  PARPLAN_ASSIGN_OR_RETURN(LayerDefinition middle, layer(LayerKind::kDecoder, "decoder"));
  PARPLAN_ASSIGN_OR_RETURN(LayerDefinition last, layer(LayerKind::kHead, "head"));
  return ModelSpec::Create("gpt", {first, middle, last}, {{0, 1}, {1, 8}, {2, 1}}, Precision::kFp32,
                           Optimizer::kAdam);
}

// Returns what training needs of the heap over the sum of its arrays at their peak. Communication
// runs beside the passes, as on GPUs, if there is any.
double ShareOfArrays(const Shape& shape, bool keeps_lifetimes_apart) {
  const absl::StatusOr<ModelSpec> model = ModelOf(shape.kind);
  EXPECT_OK(model.status());
  if (!model.ok()) return 0.0;
  const int ranks = shape.sharding_level == ShardingLevel::kNone ? 1 : 2;
  Plan plan{.device_count = ranks,
            .global_batch_size = 8 * ranks,
            .micro_batch_count = shape.micro_batch_count};
  const Strategy ends = {.data_parallel_degree = ranks, .sharding_level = shape.sharding_level};
  Strategy decoders = ends;
  decoders.recompute_level = shape.recompute_level;
  const int last = model->layer_count() - 1;
  plan.stages = {
      {.first_rank = 0,
       .rank_count = ranks,
       .layer_runs = {{.first_layer_index = 0, .layer_count = 1, .strategy = ends},
                      {.first_layer_index = 1, .layer_count = last - 1, .strategy = decoders},
                      {.first_layer_index = last, .layer_count = 1, .strategy = ends}}}};
  HeapMemory memory(keeps_lifetimes_apart);
  const std::unique_ptr<LayerKernels> kernels = MakeCpuKernels(ElementType::kFloat32);
  ArrayPool pool(memory);
  const std::unique_ptr<TokenSource> tokens =
      MakeSyntheticTokens(model->layer(0).vocabulary_size, 7);
  const absl::StatusOr<RankProgram> program = RankProgram::Create(plan, *model, 0);
  EXPECT_OK(program.status());
  if (!program.ok()) return 0.0;
  const auto trainer = RankTrainer::Create(
      *program, *model,
      {.kernels = kernels.get(),
       .pool = &pool,
       .tokens = tokens.get(),
       .make_group = [](const GroupSpec& group) -> absl::StatusOr<std::unique_ptr<Communicator>> {
         // The memory does not depend on the other rank.
         return std::make_unique<NullCommunicator>(group.purpose, 0,
                                                   static_cast<int>(group.ranks.size()));
       },
       .communicates_ahead = true});
  EXPECT_OK(trainer.status());
  if (!trainer.ok()) return 0.0;
  // Later steps must not find worse places than the first.
  for (int step = 0; step < 3; ++step) EXPECT_OK((*trainer)->Step().status());
  return memory.Needed().as_double() / pool.at_peak().Total().as_double();
}

TEST(HeapMemory, TrainingNeedsHardlyMoreThanItsArrays) {
  for (const FeedForwardKind kind : {FeedForwardKind::kGelu, FeedForwardKind::kSwiglu}) {
    for (const Shape& shape : {Shape{kind, RecomputeLevel::kNone, 1},
                               {kind, RecomputeLevel::kSelective, 1},
                               {kind, RecomputeLevel::kFull, 1},
                               {kind, RecomputeLevel::kFull, 8}}) {
      SCOPED_TRACE(absl::StrCat(shape.micro_batch_count, " micro-batches, recompute level ",
                                static_cast<int>(shape.recompute_level)));
      const double share = ShareOfArrays(shape, /*keeps_lifetimes_apart=*/true);
      EXPECT_GE(share, 1.0);
      EXPECT_LT(share, 1.005);
    }
  }
}

// Gradients that are being scattered, and parameters that are gathered ahead, live into another
// layer's pass, so they leave some holes.
TEST(HeapMemory, TrainingWithShardsNeedsLittleMoreThanItsArrays) {
  for (const ShardingLevel level : {ShardingLevel::kGradients, ShardingLevel::kParameters}) {
    for (const Shape& shape : {Shape{FeedForwardKind::kGelu, RecomputeLevel::kNone, 1, level},
                               {FeedForwardKind::kGelu, RecomputeLevel::kFull, 1, level},
                               {FeedForwardKind::kSwiglu, RecomputeLevel::kFull, 8, level}}) {
      SCOPED_TRACE(absl::StrCat(shape.micro_batch_count, " micro-batches, sharding level ",
                                static_cast<int>(level), ", recompute level ",
                                static_cast<int>(shape.recompute_level)));
      const double share = ShareOfArrays(shape, /*keeps_lifetimes_apart=*/true);
      EXPECT_GE(share, 1.0);
      EXPECT_LT(share, 1.03);
    }
  }
}

// Why there are two: in one, what is recomputed lies between what lasts.
TEST(HeapMemory, OneHeapForBothLifetimesNeedsMore) {
  EXPECT_GT(ShareOfArrays({FeedForwardKind::kGelu, RecomputeLevel::kFull, 1},
                          /*keeps_lifetimes_apart=*/false),
            1.1);
}

}  // namespace
}  // namespace parplan
