#include "tests/benchmarks/prediction/plan_sets.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace parplan {
namespace {

struct Shape {
  int hidden_size;
  int head_count;
  int key_value_head_count;
  int feed_forward_size;
  FeedForwardKind feed_forward_kind;
  int sequence_length;
  int vocabulary_size;
  int layer_count;
};

ModelSpec MakeModel(const std::string& name, const Shape& shape) {
  const auto make = [&](LayerDefinition raw) {
    raw.hidden_size = shape.hidden_size;
    raw.sequence_length = shape.sequence_length;
    absl::StatusOr<LayerDefinition> made = LayerDefinition::Create(raw, "layer");
    PARPLAN_CHECK(made.ok());
    return *made;
  };
  absl::StatusOr<ModelSpec> model = ModelSpec::Create(
      name,
      {make({.layer_definition_id = "embedding",
             .kind = LayerKind::kEmbedding,
             .vocabulary_size = shape.vocabulary_size}),
       make({.layer_definition_id = "decoder",
             .kind = LayerKind::kDecoder,
             .attention_head_count = shape.head_count,
             .key_value_head_count = shape.key_value_head_count,
             .feed_forward_size = shape.feed_forward_size,
             .feed_forward_kind = shape.feed_forward_kind}),
       make({.layer_definition_id = "head",
             .kind = LayerKind::kHead,
             .vocabulary_size = shape.vocabulary_size})},
      {{0, 1}, {1, shape.layer_count}, {2, 1}}, Precision::kFp32, Optimizer::kAdam);
  PARPLAN_CHECK(model.ok());
  return *std::move(model);
}

Strategy Dp(int degree, ShardingLevel level = ShardingLevel::kNone) {
  return {.data_parallel_degree = degree, .sharding_level = level};
}
Strategy Tp(int degree) { return {.tensor_parallel_degree = degree}; }
Strategy Recomputed(Strategy strategy) {
  strategy.recompute_level = RecomputeLevel::kFull;
  return strategy;
}
constexpr auto kZero1 = ShardingLevel::kOptimizer;
constexpr auto kZero2 = ShardingLevel::kGradients;
constexpr auto kZero3 = ShardingLevel::kParameters;

class Maker {
 public:
  explicit Maker(PlanSet& set) : set_(set) {}

  // `strategies` of the layers in turn; those of the stage's first ranks and layers first.
  // Embedding and head do not recompute.
  Plan& Add(const std::string& name, const std::vector<int>& stage_layers,
            const std::vector<Strategy>& strategies, int64_t micro_batches,
            int virtual_stages = 1) {
    Plan plan{
        .device_count = set_.device_count,
        .global_batch_size = set_.global_batch_size,
        .micro_batch_count = micro_batches,
        .schedule = virtual_stages > 1 ? Schedule::kInterleaved : Schedule::kOneForwardOneBackward,
        .virtual_stage_count = virtual_stages};
    const int degree = static_cast<int>(stage_layers.size()) / virtual_stages;
    const int rank_count = set_.device_count / degree;
    int layer = 0;
    for (size_t index = 0; index < stage_layers.size(); ++index) {
      StagePlan stage{.first_rank = static_cast<int>(index) % degree * rank_count,
                      .rank_count = rank_count};
      for (int k = 0; k < stage_layers[index]; ++k, ++layer) {
        Strategy strategy = strategies[layer % strategies.size()];
        const bool is_end = layer == 0 || layer + 1 == set_.model.layer_count();
        if (is_end) strategy.recompute_level = RecomputeLevel::kNone;
        AddLayer(stage, layer, strategy);
      }
      plan.stages.push_back(std::move(stage));
    }
    PARPLAN_CHECK(layer == set_.model.layer_count());
    set_.plans.push_back({name, std::move(plan)});
    return set_.plans.back().plan;
  }

 private:
  void AddLayer(StagePlan& stage, int layer, const Strategy& strategy) const {
    const std::vector<int>& definitions = set_.model.definition_of_layer();
    if (!stage.layer_runs.empty()) {
      StageLayerRun& last = stage.layer_runs.back();
      if (last.strategy == strategy && definitions[last.first_layer_index] == definitions[layer]) {
        ++last.layer_count;
        return;
      }
    }
    stage.layer_runs.push_back({layer, 1, strategy});
  }

  PlanSet& set_;
};

PlanSet SetA() {
  PlanSet set{.model = MakeModel("gpt", {.hidden_size = 256,
                                         .head_count = 8,
                                         .key_value_head_count = 8,
                                         .feed_forward_size = 1024,
                                         .feed_forward_kind = FeedForwardKind::kGelu,
                                         .sequence_length = 128,
                                         .vocabulary_size = 1024,
                                         .layer_count = 4}),
              .device_count = 2,
              .devices_per_node = 2,
              .global_batch_size = 8};
  Maker maker(set);
  maker.Add("DP2", {6}, {Dp(2)}, 1);
  maker.Add("DP2 m4", {6}, {Dp(2)}, 4);
  maker.Add("ZeRO-1 m2", {6}, {Dp(2, kZero1)}, 2);
  maker.Add("ZeRO-2 m2", {6}, {Dp(2, kZero2)}, 2);
  maker.Add("ZeRO-3 m1", {6}, {Dp(2, kZero3)}, 1);
  maker.Add("ZeRO-3 m4", {6}, {Dp(2, kZero3)}, 4);
  maker.Add("ZeRO-3 recompute m2", {6}, {Recomputed(Dp(2, kZero3))}, 2);
  maker.Add("TP2", {6}, {Tp(2)}, 1);
  maker.Add("TP2 m4", {6}, {Tp(2)}, 4);
  maker.Add("TP2 recompute m2", {6}, {Recomputed(Tp(2))}, 2);
  maker.Add("PP2 m4", {3, 3}, {Dp(1)}, 4);
  maker.Add("PP2 m8", {3, 3}, {Dp(1)}, 8);
  maker.Add("PP2 gpipe m4", {3, 3}, {Dp(1)}, 4).schedule = Schedule::kGpipe;
  maker.Add("PP2 interleaved m4", {2, 1, 1, 2}, {Dp(1)}, 4, 2);
  maker.Add("PP2 4+2 m8", {4, 2}, {Dp(1)}, 8);
  maker.Add("PP2 recompute m8", {3, 3}, {Recomputed(Dp(1))}, 8);
  maker.Add("mixed DP TP m2", {6}, {Dp(2), Dp(2), Tp(2), Tp(2), Dp(2), Dp(2)}, 2);
  maker.Add("mixed all m2", {6},
            {Dp(2), Dp(2, kZero3), Tp(2), Recomputed(Tp(2)), Recomputed(Dp(2)), Dp(2, kZero1)}, 2);
  return set;
}

PlanSet SetB() {
  PlanSet set{.model = MakeModel("llama", {.hidden_size = 384,
                                           .head_count = 6,
                                           .key_value_head_count = 2,
                                           .feed_forward_size = 896,
                                           .feed_forward_kind = FeedForwardKind::kSwiglu,
                                           .sequence_length = 192,
                                           .vocabulary_size = 512,
                                           .layer_count = 4}),
              .device_count = 2,
              .devices_per_node = 2,
              .global_batch_size = 8};
  Maker maker(set);
  maker.Add("DP2 m2", {6}, {Dp(2)}, 2);
  maker.Add("ZeRO-1 m1", {6}, {Dp(2, kZero1)}, 1);
  maker.Add("ZeRO-2 m4", {6}, {Dp(2, kZero2)}, 4);
  maker.Add("ZeRO-3 m2", {6}, {Dp(2, kZero3)}, 2);
  maker.Add("ZeRO-3 recompute m1", {6}, {Recomputed(Dp(2, kZero3))}, 1);
  maker.Add("TP2 m2", {6}, {Tp(2)}, 2);
  maker.Add("TP2 m8", {6}, {Tp(2)}, 8);
  maker.Add("TP2 recompute m4", {6}, {Recomputed(Tp(2))}, 4);
  maker.Add("PP2 m8", {3, 3}, {Dp(1)}, 8);
  maker.Add("PP2 m4 recompute", {3, 3}, {Recomputed(Dp(1))}, 4);
  maker.Add("PP2 gpipe m8", {3, 3}, {Dp(1)}, 8).schedule = Schedule::kGpipe;
  maker.Add("PP2 interleaved m8", {2, 1, 1, 2}, {Dp(1)}, 8, 2);
  maker.Add("PP2 4+2 m4", {4, 2}, {Dp(1)}, 4);
  maker.Add("mixed m2", {6}, {Dp(2), Tp(2), Dp(2, kZero3), Tp(2), Recomputed(Dp(2)), Dp(2)}, 2);
  return set;
}

PlanSet SetShaped() {
  PlanSet set{.model = MakeModel("gpt", {.hidden_size = 192,
                                         .head_count = 8,
                                         .key_value_head_count = 8,
                                         .feed_forward_size = 768,
                                         .feed_forward_kind = FeedForwardKind::kGelu,
                                         .sequence_length = 128,
                                         .vocabulary_size = 512,
                                         .layer_count = 4}),
              .device_count = 4,
              .devices_per_node = 2,
              .global_batch_size = 16,
              .plans = {},
              .pace = 4.0};
  Strategy tp2dp2{.tensor_parallel_degree = 2, .data_parallel_degree = 2};
  Strategy dp2tp2 = tp2dp2;
  dp2tp2.rank_order = RankOrder::kDataInnermost;
  Maker maker(set);
  maker.Add("DP4", {6}, {Dp(4)}, 1);
  maker.Add("ZeRO-3 DP4 m2", {6}, {Dp(4, kZero3)}, 2);
  maker.Add("ZeRO-2 DP4 m4", {6}, {Dp(4, kZero2)}, 4);
  maker.Add("TP4 m2", {6}, {Tp(4)}, 2);
  maker.Add("TP2 inside, DP2 across", {6}, {tp2dp2}, 2);
  maker.Add("DP2 inside, TP2 across", {6}, {dp2tp2}, 2);
  maker.Add("PP2 DP2 m4", {3, 3}, {Dp(2)}, 4);
  maker.Add("PP2 TP2 m4", {3, 3}, {Tp(2)}, 4);
  maker.Add("PP4 m8", {2, 1, 1, 2}, {Dp(1)}, 8);
  return set;
}

// Few tokens and wide layers, so that exchanging gradients takes about as long as the backward pass
// that hides it: where the slow-down of overlapping work decides the step.
PlanSet SetOverlap() {
  PlanSet set{.model = MakeModel("gpt", {.hidden_size = 384,
                                         .head_count = 6,
                                         .key_value_head_count = 6,
                                         .feed_forward_size = 1536,
                                         .feed_forward_kind = FeedForwardKind::kGelu,
                                         .sequence_length = 16,
                                         .vocabulary_size = 512,
                                         .layer_count = 6}),
              .device_count = 2,
              .devices_per_node = 2,
              .global_batch_size = 8};
  Maker maker(set);
  maker.Add("DP2 m1", {8}, {Dp(2)}, 1);
  maker.Add("DP2 m2", {8}, {Dp(2)}, 2);
  maker.Add("DP2 m4", {8}, {Dp(2)}, 4);
  maker.Add("DP2 recompute m1", {8}, {Recomputed(Dp(2))}, 1);
  maker.Add("ZeRO-1 m1", {8}, {Dp(2, kZero1)}, 1);
  maker.Add("ZeRO-1 m4", {8}, {Dp(2, kZero1)}, 4);
  maker.Add("ZeRO-2 m1", {8}, {Dp(2, kZero2)}, 1);
  return set;
}

}  // namespace

PlanSet MakePlanSet(const std::string& name) {
  if (name == "overlap") return SetOverlap();
  if (name == "shaped") return SetShaped();
  return name == "b" ? SetB() : SetA();
}

}  // namespace parplan
