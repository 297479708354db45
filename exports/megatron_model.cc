#include "exports/megatron_model.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "exports/refusal.h"

namespace parplan {
namespace {

// Returns whether both layers can be in one Megatron-LM model: all is equal but experts and
// windows.
bool FitTogether(const LayerDefinition& a, const LayerDefinition& b) {
  return a.hidden_size == b.hidden_size && a.attention_head_count == b.attention_head_count &&
         a.key_value_head_count == b.key_value_head_count && a.head_size == b.head_size &&
         a.latent_attention == b.latent_attention && a.sequence_length == b.sequence_length &&
         a.feed_forward_kind == b.feed_forward_kind;
}

// Returns whether both have experts, and others.
bool ExpertsDiffer(const LayerDefinition& a, const LayerDefinition& b) {
  return a.expert_count > 0 && b.expert_count > 0 &&
         (a.expert_count != b.expert_count || a.experts_per_token != b.experts_per_token ||
          a.expert_feed_forward_size != b.expert_feed_forward_size ||
          a.shared_expert_feed_forward_size != b.shared_expert_feed_forward_size ||
          a.expert_latent_size != b.expert_latent_size);
}

// Returns the tokens that attention reads at most; 0 for the whole sequence.
int WindowOf(const LayerDefinition& layer) {
  return layer.attention_window < layer.sequence_length ? layer.attention_window : 0;
}

// Returns which of the layers are so, for example `([0]*3+[1]*5)`.
std::string PatternOf(const std::vector<bool>& layers) {
  std::vector<std::string> terms;
  for (size_t begin = 0; begin < layers.size();) {
    size_t end = begin;
    while (end < layers.size() && layers[end] == layers[begin]) ++end;
    terms.push_back(absl::StrCat("[", layers[begin] ? 1 : 0, "]*", end - begin));
    begin = end;
  }
  return absl::StrCat("(", absl::StrJoin(terms, "+"), ")");
}

absl::Status RefuseLayer(const ModelSpec& model, int layer, absl::string_view reason) {
  return RefuseModel("Megatron-LM", "model.layer_runs",
                     absl::StrCat("has in layer ", layer, " (`",
                                  model.layer(layer).layer_definition_id, "`) ", reason));
}

// Adds what layer `layer` has beside the sizes that all layers share.
absl::Status AddLayer(const ModelSpec& model, int layer, MegatronModel* result) {
  const LayerDefinition& definition = model.layer(layer);
  const bool has_experts = definition.expert_count > 0;
  const LayerDefinition*& first = has_experts ? result->with_experts : result->dense;
  if (first == nullptr) first = &definition;
  const bool is_alike = FitTogether(definition, *result->any) &&
                        !ExpertsDiffer(definition, *first) &&
                        (has_experts || definition.feed_forward_size == first->feed_forward_size);
  if (!is_alike || !definition.has_feed_forward()) {
    return RefuseLayer(model, layer, "other shapes than before, or no feed-forward part");
  }
  if (definition.attention_chunk_size > 0) {
    return RefuseLayer(model, layer, "attention within chunks, where windows slide");
  }
  const int window = WindowOf(definition);
  if (window > 0 && result->window > 0 && window != result->window) {
    return RefuseLayer(model, layer,
                       absl::StrCat("a window of ", window, " tokens, and a layer ",
                                    "before it one of ", result->window));
  }
  if (window > 0) result->window = window;
  result->has_experts.push_back(has_experts);
  result->has_window.push_back(window > 0);
  return absl::OkStatus();
}

void AddAttention(const MegatronModel& layers, MegatronArguments* arguments) {
  const LayerDefinition& any = *layers.any;
  arguments->Add("num-attention-heads", any.attention_head_count);
  if (any.latent_attention.has_value()) {
    const LatentAttention& latent = *any.latent_attention;
    arguments->Add("multi-latent-attention");
    // Compressed vectors have norms, as the model counts their parameters.
    arguments->Add("qk-layernorm");
    if (latent.query_rank > 0) arguments->Add("q-lora-rank", latent.query_rank);
    arguments->Add("kv-lora-rank", latent.key_value_rank);
    arguments->Add("qk-head-dim", any.head_size - latent.rotary_head_size);
    arguments->Add("qk-pos-emb-head-dim", latent.rotary_head_size);
    arguments->Add("v-head-dim", latent.value_head_size);
  } else {
    if (any.key_value_head_count != any.attention_head_count) {
      arguments->Add("group-query-attention");
      arguments->Add("num-query-groups", any.key_value_head_count);
    }
    arguments->Add("kv-channels", any.head_size);
  }
  if (layers.window == 0) return;
  arguments->Add("window-size", absl::StrCat(layers.window - 1, ",0"));
  if (std::find(layers.has_window.begin(), layers.has_window.end(), false) !=
      layers.has_window.end()) {
    arguments->Add("window-attn-skip-freq", PatternOf(layers.has_window));
  }
}

}  // namespace

absl::Status RefuseMegatron(absl::string_view field, absl::string_view reason) {
  return RefusePlan("Megatron-LM", field, reason);
}

absl::StatusOr<MegatronModel> MegatronModelOf(const ModelSpec& model) {
  MegatronModel result;
  result.any = &model.layer(1);
  const int decoders = DecoderLayerCount(model);
  for (int layer = 1; layer <= decoders; ++layer) {
    PARPLAN_RETURN_IF_ERROR(AddLayer(model, layer, &result));
  }
  // The program makes each layer for a further token like the last one before it.
  const LayerDefinition& last = model.layer(decoders);
  for (int layer = decoders + 1; layer + 1 < model.layer_count(); ++layer) {
    const LayerDefinition& definition = model.layer(layer);
    if (FitTogether(definition, last) && definition.feed_forward_size == last.feed_forward_size &&
        definition.expert_count == last.expert_count && !ExpertsDiffer(definition, last) &&
        definition.attention_chunk_size == 0 && WindowOf(definition) == WindowOf(last)) {
      continue;
    }
    return RefuseLayer(model, layer, "a layer for a further token unlike the last layer before it");
  }
  const bool some_windows = std::find(result.has_window.begin(), result.has_window.end(), false) !=
                                result.has_window.end() &&
                            result.window > 0;
  if (some_windows && FurtherTokenCount(model) > 0) {
    return RefuseLayer(model, decoders + 1,
                       "a further token where some layers have windows, whose list leaves it open");
  }
  return result;
}

void AddMegatronModel(const ModelSpec& model, const MegatronModel& layers,
                      MegatronArguments* arguments) {
  const LayerDefinition& any = *layers.any;
  arguments->Add("num-layers", DecoderLayerCount(model));
  if (FurtherTokenCount(model) > 0) arguments->Add("mtp-num-layers", FurtherTokenCount(model));
  arguments->Add("hidden-size", any.hidden_size);
  if (layers.dense != nullptr) arguments->Add("ffn-hidden-size", layers.dense->feed_forward_size);
  AddAttention(layers, arguments);
  arguments->Add("seq-length", any.sequence_length);
  arguments->Add("max-position-embeddings", any.sequence_length);
  arguments->Add("vocab-size", model.layer(0).vocabulary_size);
  arguments->AddIf(any.feed_forward_kind == FeedForwardKind::kSwiglu, "swiglu");
  arguments->AddIf(!model.layer(model.layer_count() - 1).tied_embedding,
                   "untie-embeddings-and-output-weights");
  if (layers.with_experts != nullptr) {
    const LayerDefinition& experts = *layers.with_experts;
    arguments->Add("num-experts", experts.expert_count);
    arguments->Add("moe-router-topk", experts.experts_per_token);
    arguments->Add("moe-ffn-hidden-size", experts.expert_feed_forward_size);
    if (experts.shared_expert_feed_forward_size > 0) {
      arguments->Add("moe-shared-expert-intermediate-size",
                     experts.shared_expert_feed_forward_size);
    }
    if (experts.expert_latent_size > 0) {
      arguments->Add("moe-latent-size", experts.expert_latent_size);
    }
    if (layers.dense != nullptr) arguments->Add("moe-layer-freq", PatternOf(layers.has_experts));
    arguments->Add("moe-token-dispatcher-type", "alltoall");
  }
  arguments->AddIf(model.precision() == Precision::kBf16, "bf16");
  arguments->AddIf(model.precision() == Precision::kFp16, "fp16");
  arguments->Add("optimizer", model.optimizer() == Optimizer::kSgd ? "sgd" : "adam");
}

std::vector<std::string> MegatronStages(const UniformPlan& plan, const ModelSpec& model) {
  const int decoders = DecoderLayerCount(model);
  std::vector<std::string> stages;
  int layer = 0;
  for (const int count : plan.stage_layer_counts) {
    std::string& stage = stages.emplace_back();
    for (int k = 0; k < count; ++k, ++layer) {
      const bool is_last = layer + 1 == model.layer_count();
      stage += layer == 0 ? 'E' : is_last ? 'L' : layer > decoders ? 'm' : 't';
    }
  }
  return stages;
}

absl::Status CheckFurtherTokens(const UniformPlan& plan, const ModelSpec& model) {
  const std::vector<std::string> stages = MegatronStages(plan, model);
  const size_t first_last = stages.size() - static_cast<size_t>(plan.pipeline_parallel_degree());
  int holders = 0;
  for (size_t i = 0; i < stages.size(); ++i) {
    if (!absl::StrContains(stages[i], 'm')) continue;
    ++holders;
    if (holders == 1 && i >= first_last) continue;
    return RefuseMegatron(absl::StrCat("stages[", i, "]"),
                          "holds a layer for a further token: all of them are in one stage, which "
                          "is the last virtual stage of its device");
  }
  return absl::OkStatus();
}

}  // namespace parplan
