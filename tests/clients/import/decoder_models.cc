#include "tests/clients/import/decoder_models.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "tests/support/group_size_dice.h"

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

// Returns decoder layer `layer`, counted from 1.
LayerDefinition Decoder(const DecoderModelOptions& options, int layer) {
  LayerDefinition decoder{
      .layer_definition_id = "dense",
      .kind = LayerKind::kDecoder,
      .attention_head_count = 64,
      .key_value_head_count = options.key_value_head_count,
      .feed_forward_size = 1536,
      .feed_forward_kind = options.gated ? FeedForwardKind::kSwiglu : FeedForwardKind::kGelu};
  if (layer > options.dense_layer_count) {
    decoder.layer_definition_id = "experts";
    decoder.feed_forward_size = 0;
    decoder.expert_count = 16;
    decoder.experts_per_token = 2;
    decoder.expert_feed_forward_size = 256;
    decoder.shared_expert_feed_forward_size = 128;
    decoder.expert_latent_size = options.expert_latent_size;
  }
  if (options.latent_attention) {
    decoder.key_value_head_count = 64;
    decoder.head_size = 12;
    decoder.latent_attention = LatentAttention{.query_rank = options.query_rank,
                                               .key_value_rank = 16,
                                               .rotary_head_size = 4,
                                               .value_head_size = 8};
  }
  const int interval = options.window_interval;
  if (interval == 1 || (interval > 1 && layer % interval != 0)) {
    decoder.layer_definition_id += "-window";
    decoder.attention_window = 128;
  }
  return decoder;
}

}  // namespace

ModelSpec DecoderModel(const DecoderModelOptions& options) {
  std::vector<LayerDefinition> layers;
  std::vector<ModelLayerRun> runs;
  // Appends one layer, and its definition if it is new.
  const auto append = [&layers, &runs](const LayerDefinition& raw) {
    const auto same = std::find_if(layers.begin(), layers.end(), [&raw](const auto& layer) {
      return layer.layer_definition_id == raw.layer_definition_id;
    });
    const int index = static_cast<int>(same - layers.begin());
    if (same == layers.end()) layers.push_back(MakeLayer(raw));
    if (!runs.empty() && runs.back().definition_index == index) {
      ++runs.back().layer_count;
    } else {
      runs.push_back({index, 1});
    }
  };
  append(
      {.layer_definition_id = "embedding", .kind = LayerKind::kEmbedding, .vocabulary_size = 1000});
  const int decoders = options.dense_layer_count + options.expert_layer_count;
  for (int layer = 1; layer <= decoders; ++layer) append(Decoder(options, layer));
  for (int depth = 1; depth <= options.prediction_count; ++depth) {
    LayerDefinition prediction = Decoder(options, decoders);
    prediction.layer_definition_id = absl::StrCat("prediction-", depth);
    prediction.prediction_depth = depth;
    prediction.vocabulary_size = 1000;
    append(prediction);
  }
  append({.layer_definition_id = "head",
          .kind = LayerKind::kHead,
          .vocabulary_size = 1000,
          .tied_embedding = options.tied_embedding,
          .further_token_count = options.prediction_count});
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

DecoderModelOptions RandomMegatronModel(std::mt19937_64& random) {
  DecoderModelOptions options = RandomDecoderModel(random);
  options.latent_attention = Draw(random, 0, 2) == 0;
  options.query_rank = Toss(random) ? 32 : 0;
  if (Draw(random, 0, 2) == 0) options.window_interval = Draw(random, 1, 4);
  if (Draw(random, 0, 2) == 0) options.prediction_count = Draw(random, 1, 3);
  // A list of windows leaves open what layers of further tokens have.
  if (options.prediction_count > 0) options.window_interval = std::min(options.window_interval, 1);
  if (options.expert_layer_count > 0 && Toss(random)) options.expert_latent_size = 64;
  return options;
}

namespace {

// Lets halves of the ranks with the same parameters share states in plans of even batches, if they
// share any and it is possible. Draws nothing, so that the other plans stay what they were.
void ShareInHalves(UniformPlan& plan) {
  Strategy& strategy = plan.strategy;
  if (plan.global_batch_size % 2 != 0 || strategy.data_parallel_degree % 2 != 0 ||
      strategy.replica_count() < 4 || strategy.sharding_level == ShardingLevel::kNone) {
    return;
  }
  strategy.sharding_degree = strategy.replica_count() / 2;
  if (!strategy.has_experts_in_groups()) strategy.sharding_degree = 0;
}

// Draws a plan of Megatron-LM in which groups have as many micro-batches as the pipeline devices.
UniformPlan RandomPlanOfWholeGroups(std::mt19937_64& random, const ModelSpec& model) {
  UniformPlan plan;
  Strategy& strategy = plan.strategy;
  const int layer_count = model.layer_count();
  bool has_experts = false;
  for (int layer = 0; layer < layer_count; ++layer) {
    has_experts = has_experts || model.layer(layer).expert_count > 0;
  }
  // Cuts between layers at random places, so that stages are uneven. Layers for further tokens stay
  // together.
  std::vector<int> cuts;
  for (int cut = 1; cut < layer_count; ++cut) {
    if (model.layer(cut).prediction_depth <= 1) cuts.push_back(cut);
  }
  const int most_stages = static_cast<int>(cuts.size()) + 1;
  const int pipeline = Draw(random, 1, std::min(most_stages, 8));
  if (pipeline > 1) plan.virtual_stage_count = Draw(random, 1, most_stages / pipeline);
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
  if (strategy.context_parallel_degree > 1) {
    strategy.context_kind = static_cast<ContextKind>(Draw(random, 1, 3));
    if (strategy.context_kind == ContextKind::kRing && strategy.context_parallel_degree == 4 &&
        Toss(random)) {
      strategy.context_exchange_degree = 2;
    }
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

}  // namespace

UniformPlan RandomMegatronPlan(std::mt19937_64& random, const ModelSpec& model) {
  UniformPlan plan = RandomPlanOfWholeGroups(random, model);
  if (plan.strategy.recompute_level == RecomputeLevel::kSelective && Toss(random)) {
    const std::vector<RecomputeModules> sets =
        SearchedModuleSets(model.layer_definitions(), /*with_attention=*/true);
    plan.strategy.set_recomputation(Recomputation(
        sets[static_cast<size_t>(Draw(random, 0, static_cast<int>(sets.size()) - 1))]));
  }
  if (HasExperts(model) && plan.strategy.tensor_parallel_degree > 1 && Toss(random)) {
    plan.strategy.expert_tensor_parallel_degree = plan.strategy.tensor_parallel_degree / 2;
  }
  if (plan.strategy.sharding_level == ShardingLevel::kOptimizer) ShareInHalves(plan);
  if (plan.virtual_stage_count == 1 || Toss(random)) return plan;
  const int pipeline = plan.pipeline_parallel_degree();
  const int64_t count = plan.micro_batch_count + Draw(random, 0, pipeline - 1);
  plan.micro_batch_group_size = DrawGroupSize(pipeline, plan.virtual_stage_count, count, random);
  if (plan.micro_batch_group_size == 0) return plan;
  plan.global_batch_size = plan.global_batch_size / plan.micro_batch_count * count;
  plan.micro_batch_count = count;
  return plan;
}

UniformPlan RandomMegatronLayout(std::mt19937_64& random, const ModelSpec& model) {
  UniformPlan plan = RandomMegatronPlan(random, model);
  if (Toss(random)) return plan;
  // Stages of decoder layers alone, which the stage before takes; layers for further tokens stay.
  int end = plan.stage_layer_counts.front();
  for (size_t i = 1; i + 1 < plan.stage_layer_counts.size(); ++i) {
    const int count = plan.stage_layer_counts[i];
    end += count;
    if (end > 1 + DecoderLayerCount(model) || Draw(random, 0, 2) > 0) continue;
    plan.stage_layer_counts[i - 1] += count;
    plan.stage_layer_counts[i] = 0;
  }
  return plan;
}

UniformPlan RandomTorchtitanPlan(std::mt19937_64& random, const ModelSpec& model) {
  // Stages, degrees and batch are drawn alike.
  UniformPlan plan = RandomPlanOfWholeGroups(random, model);
  Strategy& strategy = plan.strategy;
  const bool has_pipeline = plan.pipeline_parallel_degree() > 1;
  const bool has_replicas = strategy.data_parallel_degree * strategy.context_parallel_degree > 1;
  strategy.context_kind =
      strategy.context_parallel_degree > 1 ? ContextKind::kAllGather : ContextKind::kRing;
  strategy.context_exchange_degree = 1;
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
  ShareInHalves(plan);
  return plan;
}

}  // namespace parplan
