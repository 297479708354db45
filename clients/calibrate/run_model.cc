#include "clients/calibrate/run_model.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "clients/import/model_facts.h"

namespace parplan::accuracy {
namespace {

// Places of the tables in a `ModelSpec` made here.
constexpr int kEmbedding = 0;
constexpr int kHead = 1;

int PaddedSize(int vocabulary_size, int tensor_parallel_degree) {
  const int multiple = 128 * tensor_parallel_degree;
  return (vocabulary_size + multiple - 1) / multiple * multiple;
}

bool HasExperts(const PublishedModel& model, int layer) {
  return model.expert_count > 0 && layer >= model.dense_layer_count &&
         (layer - model.dense_layer_count) % model.expert_layer_interval == 0;
}

LayerDefinition Table(const PublishedModel& model, LayerKind kind, int vocabulary_size) {
  LayerDefinition table;
  table.layer_definition_id = kind == LayerKind::kHead ? "head" : "embedding";
  table.kind = kind;
  table.hidden_size = model.hidden_size;
  table.sequence_length = model.sequence_length;
  table.vocabulary_size = vocabulary_size;
  if (kind == LayerKind::kHead) {
    table.tied_embedding = model.tied_embedding;
    table.further_token_count = model.prediction_layer_count;
  } else if (model.learned_positions) {
    table.parameter_count =
        int64_t{model.hidden_size} * (int64_t{vocabulary_size} + model.sequence_length);
  }
  return table;
}

LayerDefinition Plain(const PublishedModel& model, LayerKind kind, const char* id) {
  LayerDefinition layer;
  layer.layer_definition_id = id;
  layer.kind = kind;
  layer.hidden_size = model.hidden_size;
  layer.sequence_length = model.sequence_length;
  return layer;
}

void SetAttention(const PublishedModel& model, LayerDefinition* layer) {
  layer->attention_head_count = model.attention_head_count;
  layer->head_size = model.head_size;
  if (model.latent_attention.has_value()) {
    layer->latent_attention = model.latent_attention;
  } else {
    layer->key_value_head_count = model.key_value_head_count;
  }
}

void SetFeedForward(const PublishedModel& model, bool with_experts, LayerDefinition* layer) {
  layer->feed_forward_kind = model.feed_forward_kind;
  if (with_experts) {
    layer->expert_count = model.expert_count;
    layer->experts_per_token = model.experts_per_token;
    layer->expert_feed_forward_size = model.expert_feed_forward_size;
    layer->shared_expert_feed_forward_size = model.shared_expert_feed_forward_size;
    layer->expert_latent_size = model.expert_latent_size;
  } else {
    layer->feed_forward_size = model.feed_forward_size;
  }
}

LayerDefinition Block(const PublishedModel& model, bool with_experts, bool has_window) {
  LayerDefinition block = Plain(model, model.encoder ? LayerKind::kEncoder : LayerKind::kDecoder,
                                with_experts ? "experts" : "block");
  SetAttention(model, &block);
  SetFeedForward(model, with_experts, &block);
  if (has_window) {
    block.layer_definition_id += "-window";
    block.attention_window = model.attention_window;
  }
  return block;
}

// Returns the layer that a letter of a hybrid's pattern stands for (PublishedModel).
LayerDefinition HybridLayer(const PublishedModel& model, char letter) {
  if (letter == 'M') {
    LayerDefinition layer = Plain(model, LayerKind::kStateSpace, "state-space");
    layer.state_space = model.state_space;
    layer.feed_forward_kind = FeedForwardKind::kAbsent;
    return layer;
  }
  if (letter == '*') {
    LayerDefinition layer = Plain(model, LayerKind::kDecoder, "attention");
    SetAttention(model, &layer);
    layer.feed_forward_kind = FeedForwardKind::kAbsent;
    return layer;
  }
  const bool with_experts = letter == 'E';
  LayerDefinition layer =
      Plain(model, LayerKind::kFeedForward, with_experts ? "experts" : "feed-forward");
  SetFeedForward(model, with_experts, &layer);
  return layer;
}

LayerDefinition LayerAt(const PublishedModel& model, int index) {
  if (!model.layer_pattern.empty()) return HybridLayer(model, model.layer_pattern[index]);
  const bool has_window = model.attention_window > 0 && index % model.window_interval == 0;
  return Block(model, HasExperts(model, index), has_window);
}

// Freezes the weights of a layer, beside which adapters are trained where it can have them.
void Freeze(const PublishedModel& model, LayerDefinition* layer) {
  layer->frozen = true;
  if (HasAttention(layer->kind) && !layer->latent_attention.has_value()) {
    layer->attention_adapter_rank = model.attention_adapter_rank;
  }
  if (IsTransformer(layer->kind) && layer->feed_forward_size > 0 && layer->expert_count == 0) {
    layer->feed_forward_adapter_rank = model.feed_forward_adapter_rank;
  }
}

// Appends `layer`, whose definition it adds unless there is an equal one.
absl::Status Append(LayerDefinition layer, std::vector<LayerDefinition>* definitions,
                    std::vector<ModelLayerRun>* runs) {
  PARPLAN_ASSIGN_OR_RETURN(layer, LayerDefinition::Create(std::move(layer), "model"));
  const auto known = std::find(definitions->begin(), definitions->end(), layer);
  const auto index = static_cast<int>(known - definitions->begin());
  if (known == definitions->end()) definitions->push_back(std::move(layer));
  if (runs->back().definition_index == index) {
    ++runs->back().layer_count;
  } else {
    runs->push_back({index, 1});
  }
  return absl::OkStatus();
}

absl::string_view FeedForwardName(FeedForwardKind kind) {
  switch (kind) {
    case FeedForwardKind::kNone:
    case FeedForwardKind::kAbsent:
      return "none";
    case FeedForwardKind::kGelu:
      return "gelu";
    case FeedForwardKind::kSwiglu:
      return "swiglu";
  }
  return "";
}

}  // namespace

std::string ModelKey(const PublishedModel& model) {
  const int heads = model.attention_head_count;
  std::vector<std::string> parts = {
      absl::StrCat(model.layer_count, "x", model.hidden_size),
      absl::StrCat("heads ", heads, "/",
                   model.key_value_head_count > 0 ? model.key_value_head_count : heads),
      absl::StrCat("ffn ", model.feed_forward_size, " ", FeedForwardName(model.feed_forward_kind)),
      absl::StrCat("experts ", model.expert_count, "/", model.experts_per_token),
      absl::StrCat("seq ", model.sequence_length),
      absl::StrCat("vocab ", model.vocabulary_size, model.tied_embedding ? " tied" : "",
                   model.learned_positions ? " with positions" : "")};
  // Parts that few models have.
  const auto add = [&parts](const auto&... words) { parts.push_back(absl::StrCat(words...)); };
  if (model.encoder) add("encoder");
  if (model.head_size > 0 && int64_t{model.head_size} * heads != model.hidden_size) {
    add("head size ", model.head_size);
  }
  if (model.expert_count > 0) {
    add("expert ffn ", model.expert_feed_forward_size, "/", model.shared_expert_feed_forward_size,
        " from ", model.dense_layer_count, " every ", model.expert_layer_interval);
    if (model.expert_latent_size > 0) add("expert latent ", model.expert_latent_size);
  }
  if (model.latent_attention.has_value()) {
    const LatentAttention& latent = *model.latent_attention;
    add("latent ", latent.query_rank, "/", latent.key_value_rank, "/", latent.rotary_head_size, "/",
        latent.value_head_size);
  }
  if (!model.layer_pattern.empty()) add("pattern ", model.layer_pattern);
  if (model.state_space.has_value()) {
    // The other sizes are the same for all rows.
    const StateSpace& space = *model.state_space;
    add("state space ", space.inner_size, "/", space.state_size, "/", space.head_count, "/",
        space.group_count);
  }
  if (model.prediction_layer_count > 0) {
    add("predicts ", model.prediction_layer_count, " more",
        model.prediction_has_experts ? " with experts" : "",
        model.predictions_share_weights ? " by one layer" : "");
  }
  if (model.frozen) {
    add("adapters ", model.attention_adapter_rank, "/", model.feed_forward_adapter_rank);
  }
  if (model.attention_window > 0) {
    add("window ", model.attention_window, " every ", model.window_interval);
  }
  return absl::StrJoin(parts, ", ");
}

absl::StatusOr<ModelSpec> ModelOf(const PublishedRun& run, const RunRuntime& runtime) {
  const PublishedModel& model = run.model;
  const int vocabulary_size =
      runtime.pads_vocabulary
          ? PaddedSize(model.vocabulary_size, run.parallelism.tensor_parallel_degree)
          : model.vocabulary_size;
  std::vector<LayerDefinition> definitions = {Table(model, LayerKind::kEmbedding, vocabulary_size),
                                              Table(model, LayerKind::kHead, vocabulary_size)};
  for (LayerDefinition& table : definitions) {
    if (model.frozen) Freeze(model, &table);
    PARPLAN_ASSIGN_OR_RETURN(table, LayerDefinition::Create(std::move(table), "model"));
  }
  std::vector<ModelLayerRun> runs = {{kEmbedding, 1}};
  for (int index = 0; index < model.layer_count; ++index) {
    LayerDefinition layer = LayerAt(model, index);
    if (model.frozen) Freeze(model, &layer);
    PARPLAN_RETURN_IF_ERROR(Append(std::move(layer), &definitions, &runs));
  }
  for (int depth = 1; depth <= model.prediction_layer_count; ++depth) {
    // A layer like the last one (Megatron Core, get_gpt_mtp_block_spec), over all tokens.
    const bool with_experts = model.layer_pattern.empty() ? HasExperts(model, model.layer_count - 1)
                                                          : model.prediction_has_experts;
    LayerDefinition layer = Block(model, with_experts, /*has_window=*/false);
    layer.layer_definition_id = absl::StrCat("prediction-", depth);
    layer.prediction_depth = depth;
    layer.vocabulary_size = vocabulary_size;
    if (model.frozen) Freeze(model, &layer);
    PARPLAN_RETURN_IF_ERROR(Append(std::move(layer), &definitions, &runs));
  }
  runs.push_back({kHead, 1});
  const std::string name = model.name.empty() ? run.id : model.name;
  return ModelSpec::Create(ModelIdFrom(name), std::move(definitions), std::move(runs),
                           runtime.precision, Optimizer::kAdam);
}

}  // namespace parplan::accuracy
