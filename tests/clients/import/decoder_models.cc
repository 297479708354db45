#include "tests/clients/import/decoder_models.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"

namespace parplan {
namespace {

LayerDefinition MakeLayer(LayerDefinition raw) {
  raw.hidden_size = 512;
  raw.sequence_length = 1024;
  absl::StatusOr<LayerDefinition> layer = LayerDefinition::Create(std::move(raw), "layer");
  PARPLAN_CHECK(layer.ok());
  return *std::move(layer);
}

int Draw(std::mt19937_64& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
}

bool Toss(std::mt19937_64& random) { return Draw(random, 0, 1) == 1; }

}  // namespace

ModelSpec DecoderModel(const DecoderModelOptions& options) {
  const FeedForwardKind kind = options.gated ? FeedForwardKind::kSwiglu : FeedForwardKind::kGelu;
  std::vector<LayerDefinition> layers;
  layers.push_back(MakeLayer({.layer_definition_id = "embedding",
                              .kind = LayerKind::kEmbedding,
                              .vocabulary_size = 1000}));
  LayerDefinition dense{.layer_definition_id = "dense",
                        .kind = LayerKind::kDecoder,
                        .attention_head_count = 64,
                        .key_value_head_count = options.key_value_head_count,
                        .feed_forward_size = 1536,
                        .feed_forward_kind = kind};
  LayerDefinition experts = dense;
  experts.layer_definition_id = "experts";
  experts.feed_forward_size = 0;
  experts.expert_count = 16;
  experts.experts_per_token = 2;
  experts.expert_feed_forward_size = 256;
  experts.shared_expert_feed_forward_size = 128;
  std::vector<ModelLayerRun> runs = {{0, 1}};
  if (options.dense_layer_count > 0) {
    runs.push_back({static_cast<int>(layers.size()), options.dense_layer_count});
    layers.push_back(MakeLayer(dense));
  }
  if (options.expert_layer_count > 0) {
    runs.push_back({static_cast<int>(layers.size()), options.expert_layer_count});
    layers.push_back(MakeLayer(experts));
  }
  runs.push_back({static_cast<int>(layers.size()), 1});
  layers.push_back(MakeLayer({.layer_definition_id = "head",
                              .kind = LayerKind::kHead,
                              .vocabulary_size = 1000,
                              .tied_embedding = options.tied_embedding}));
  absl::StatusOr<ModelSpec> model = ModelSpec::Create("decoder", std::move(layers), std::move(runs),
                                                      options.precision, options.optimizer);
  PARPLAN_CHECK(model.ok());
  return *std::move(model);
}

DecoderModelOptions RandomDecoderModel(std::mt19937_64& random) {
  DecoderModelOptions options;
  options.dense_layer_count = Draw(random, 0, 40);
  options.expert_layer_count = Toss(random) ? Draw(random, 1, 40) : 0;
  if (options.dense_layer_count + options.expert_layer_count == 0) options.dense_layer_count = 1;
  options.key_value_head_count = Toss(random) ? 64 : 32;
  options.gated = Toss(random);
  options.tied_embedding = Toss(random);
  options.precision = static_cast<Precision>(Draw(random, 1, 3));
  options.optimizer = Toss(random) ? Optimizer::kAdam : Optimizer::kSgd;
  return options;
}

UniformPlan RandomMegatronPlan(std::mt19937_64& random, const ModelSpec& model) {
  UniformPlan plan;
  Strategy& strategy = plan.strategy;
  const int layer_count = model.layer_count();
  bool has_experts = false;
  for (int layer = 0; layer < layer_count; ++layer) {
    has_experts = has_experts || model.layer(layer).expert_count > 0;
  }
  const int pipeline = Draw(random, 1, std::min(layer_count, 8));
  if (pipeline > 1) plan.virtual_stage_count = Draw(random, 1, layer_count / pipeline);
  // Cuts between layers at random places, so that stages are uneven.
  std::vector<int> cuts;
  for (int cut = 1; cut < layer_count; ++cut) cuts.push_back(cut);
  std::shuffle(cuts.begin(), cuts.end(), random);
  cuts.resize(static_cast<size_t>(pipeline * plan.virtual_stage_count - 1));
  cuts.push_back(layer_count);
  std::sort(cuts.begin(), cuts.end());
  int last = 0;
  for (const int cut : cuts) plan.stage_layer_counts.push_back(cut - std::exchange(last, cut));

  strategy.tensor_parallel_degree = 1 << Draw(random, 0, 3);
  strategy.context_parallel_degree = 1 << Draw(random, 0, 2);
  strategy.data_parallel_degree = Draw(random, 1, 6);
  strategy.sequence_parallel = strategy.tensor_parallel_degree > 1 && (has_experts || Toss(random));
  if (strategy.context_parallel_degree > 1 && Toss(random)) {
    strategy.context_kind = ContextKind::kUlysses;
  }
  const bool has_fsdp =
      pipeline == 1 && (strategy.tensor_parallel_degree == 1 || strategy.sequence_parallel);
  strategy.sharding_level = static_cast<ShardingLevel>(Draw(random, 1, has_fsdp ? 4 : 2));
  if (has_experts && strategy.data_parallel_degree % 2 == 0 && Toss(random)) {
    strategy.expert_parallel_degree = 2 * strategy.context_parallel_degree;
  }
  strategy.recompute_level = static_cast<RecomputeLevel>(Draw(random, 1, 3));
  if (strategy.recompute_level == RecomputeLevel::kFull && Toss(random)) {
    // Fewer than the fullest stage has, so that the number says something. An end counts as a layer
    // there, thus two less.
    const int most =
        *std::max_element(plan.stage_layer_counts.begin(), plan.stage_layer_counts.end()) - 3;
    if (most > 0) plan.recomputed_layer_count = Draw(random, 1, most);
  }
  plan.device_count = strategy.rank_count() * pipeline;
  plan.micro_batch_count = int64_t{pipeline} * Draw(random, 1, 4);
  plan.global_batch_size =
      plan.micro_batch_count * strategy.data_parallel_degree * Draw(random, 1, 3);
  return plan;
}

UniformPlan RandomTorchtitanPlan(std::mt19937_64& random, const ModelSpec& model) {
  // Stages, degrees and batch are drawn alike.
  UniformPlan plan = RandomMegatronPlan(random, model);
  Strategy& strategy = plan.strategy;
  const bool has_pipeline = plan.pipeline_parallel_degree() > 1;
  const bool has_replicas = strategy.data_parallel_degree * strategy.context_parallel_degree > 1;
  strategy.context_kind = ContextKind::kRing;
  plan.recomputed_layer_count = 0;
  if (strategy.recompute_level == RecomputeLevel::kSelective) {
    strategy.recompute_level = RecomputeLevel::kNone;
  }
  if (!has_replicas) {
    strategy.sharding_level = ShardingLevel::kNone;
  } else if (has_pipeline) {
    const bool shards = strategy.context_parallel_degree > 1 || Toss(random);
    const bool may_shard = plan.virtual_stage_count <= 3;
    if (shards && !may_shard) {
      plan.virtual_stage_count = 1;
      plan.stage_layer_counts.assign(1, model.layer_count());
      strategy.sharding_level = ShardingLevel::kParameters;
    } else {
      strategy.sharding_level = shards ? ShardingLevel::kOptimizer : ShardingLevel::kNone;
    }
  } else if (Toss(random)) {
    strategy.sharding_level = ShardingLevel::kParameters;
  } else {
    plan.micro_batch_count = 1;
    const bool shards = strategy.context_parallel_degree > 1 || Toss(random);
    strategy.sharding_level = shards ? ShardingLevel::kGradients : ShardingLevel::kNone;
  }
  const bool may_spread =
      strategy.tensor_parallel_degree == 1 && strategy.sharding_level != ShardingLevel::kNone;
  if (!may_spread) strategy.expert_parallel_degree = 1;
  plan.device_count = strategy.rank_count() * plan.pipeline_parallel_degree();
  plan.global_batch_size =
      plan.micro_batch_count * strategy.data_parallel_degree * Draw(random, 1, 3);
  return plan;
}

}  // namespace parplan
