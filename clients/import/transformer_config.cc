#include "clients/import/transformer_config.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/import/attention_config.h"
#include "clients/import/expert_config.h"
#include "clients/import/layer_layout.h"
#include "clients/import/named_text.h"
#include "clients/import/state_space_config.h"
#include "planner/model/model_limits.h"
#include "planner/model/planning_problem.h"

namespace parplan {
namespace {

// Llama's rule: two thirds of four times the width, rounded up.
int GatedFeedForwardSize(int hidden_size, int multiple) {
  const int64_t wide = int64_t{hidden_size} * 8 / 3;
  return static_cast<int>(
      std::min<int64_t>((wide + multiple - 1) / multiple * multiple, kMaxImportCount));
}

// Cross-attention to a part that has no run here.
void RefuseCrossAttention(ConfigFields& fields) {
  for (const char* key : {"add_cross_attention", "cross_attention_layers"}) {
    fields.Refuse(key, "is of cross-attention to another part of the model, which has no run here");
  }
}

int ReadFeedForwardSize(const FamilyTraits& traits, ConfigFields& fields, int hidden_size,
                        std::vector<std::string>* notes) {
  const int multiple = fields.Optional({"multiple_of"}, 256);
  const int size =
      fields.Optional({"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"}, 0);
  if (size > 0) return size;
  if (traits.is_gated) {
    const int derived = GatedFeedForwardSize(hidden_size, multiple);
    notes->push_back(absl::StrCat("feed_forward_size ", derived,
                                  " follows Llama's rule; the config gives none"));
    return derived;
  }
  if (traits.model_type != "mpt") return FourTimes(hidden_size);
  const int64_t wide = int64_t{fields.Optional({"expansion_ratio"}, 4)} * hidden_size;
  return static_cast<int>(std::min<int64_t>(wide, kMaxImportCount));
}

void ReadSequenceLength(const FamilyTraits& traits, ConfigFields& fields,
                        TransformerRunFacts& run) {
  for (const char* key : {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length",
                          "n_ctx", "max_sequence_length"}) {
    const int length = fields.Optional({key}, 0);
    if (run.sequence_length == 0) run.sequence_length = length;
  }
  if (run.sequence_length == 0) run.sequence_length = traits.sequence_length;
}

// Reads the number of layers that predict further tokens.
int ReadPredictionCount(ConfigFields& fields) {
  const int count = fields.Count({"num_nextn_predict_layers", "mtp_num_hidden_layers"}, 0);
  if (count > kMaxFurtherTokenCount) {
    fields.Fail("num_nextn_predict_layers",
                absl::StrCat("must be at most ", kMaxFurtherTokenCount));
    return 0;
  }
  return count;
}

// Facts beyond its sizes on which the parameters of a layer depend.
struct LayerExtras {
  bool query_key_value_bias = false;
  bool output_bias = false;
  bool feed_forward_bias = false;
  int norm_vectors = 2;
  // In attention: norms of queries and keys, sinks, gates.
  int64_t attention = 0;
  int64_t state_space = 0;
  // In layers with experts.
  int64_t experts = 0;
  bool experts_have_biases = true;
};

// Reads biases and norms.
LayerExtras ReadExtraParameters(const FamilyTraits& traits, ConfigFields& fields,
                                const TransformerRunFacts& run, std::vector<std::string>* notes) {
  LayerExtras extra;
  // A field, where there is one, is about query, key, value and output.
  const bool has_bias = fields.Flag({"use_bias", "bias", "enable_bias", "add_bias_linear"},
                                    traits.has_feed_forward_bias);
  const bool states_bias = fields.Has("use_bias") || fields.Has("bias") ||
                           fields.Has("enable_bias") || fields.Has("add_bias_linear");
  extra.query_key_value_bias = states_bias ? has_bias : traits.has_query_key_value_bias;
  extra.output_bias = states_bias ? has_bias : traits.has_output_bias;
  if (fields.Has("attention_bias")) {
    extra.query_key_value_bias = fields.Flag({"attention_bias"}, false);
    // GLM's bias is of query, key and value alone.
    extra.output_bias = extra.query_key_value_bias && !absl::StartsWith(traits.model_type, "glm");
  }
  if (fields.Has("attention_out_bias")) {
    extra.output_bias = fields.Flag({"attention_out_bias"}, false);
  }
  extra.query_key_value_bias =
      fields.Flag({"use_qkv_bias", "qkv_bias", "add_qkv_bias"}, extra.query_key_value_bias);
  extra.feed_forward_bias = fields.Flag({"mlp_bias"}, has_bias);
  if (fields.Flag({"no_bias"}, true) == false) {
    extra.query_key_value_bias = true;
    extra.output_bias = true;
  }
  extra.experts_have_biases = traits.model_type != "phimoe";

  // Parallel attention saves an exchange, which is priced all the same.
  const bool is_parallel = fields.Flag({"parallel_attn", "use_parallel_residual"},
                                       traits.is_parallel || traits.model_type == "falcon");
  extra.norm_vectors = traits.norm_vector_count;
  if (traits.model_type == "falcon" && is_parallel &&
      !fields.Flag({"new_decoder_architecture"}, false)) {
    extra.norm_vectors = 2;
  }
  if (is_parallel) {
    notes->push_back(
        "attention and feed-forward part are parallel: they need one exchange of tensor "
        "parallelism, two are priced");
  }
  const QueryKeyNorm query_key_norm =
      fields.Flag({"use_qk_norm", "qk_layernorm"}, false) && traits.model_type != "llama4_text"
          ? QueryKeyNorm::kHead
          : traits.query_key_norm;
  const int64_t groups =
      run.key_value_head_count > 0 ? run.key_value_head_count : run.attention_head_count;
  const int64_t head_size = run.attention_head_count > 0 ? HeadSize(run) : 0;
  if (query_key_norm == QueryKeyNorm::kHead) extra.attention += 2 * head_size;
  if (query_key_norm == QueryKeyNorm::kAllHeads) {
    extra.attention += (run.attention_head_count + groups) * head_size;
  }
  // GPT-OSS's sinks.
  if (traits.model_type == "gpt_oss") extra.attention += run.attention_head_count;
  if (fields.Flag({"attn_output_gate"}, traits.has_attention_gate)) {
    extra.attention += int64_t{run.hidden_size} * run.attention_head_count * head_size;
    notes->push_back(
        "the gate of attention's output counts as parameters of its layers; its time is not "
        "priced");
  }
  return extra;
}

// Returns the parameters of a layer that do not follow from its sizes.
int64_t ExtraParameterCount(const TransformerRunFacts& run, const LayerExtras& extra) {
  const bool has_attention =
      run.kind == v1::LAYER_KIND_DECODER || run.kind == v1::LAYER_KIND_ENCODER;
  const bool has_feed_forward = run.feed_forward_kind != v1::FEED_FORWARD_KIND_NONE;
  const int parts = (run.kind == v1::LAYER_KIND_FEED_FORWARD ? 0 : 1) + (has_feed_forward ? 1 : 0);
  int64_t count = int64_t{extra.norm_vectors - 2} * run.hidden_size * parts / 2;
  if (has_attention) {
    count +=
        extra.attention + BiasCount(run, 1, extra.query_key_value_bias, extra.output_bias, false);
  }
  if (run.kind == v1::LAYER_KIND_STATE_SPACE) count += extra.state_space;
  if (has_feed_forward && extra.feed_forward_bias &&
      (run.expert_count == 0 || extra.experts_have_biases)) {
    count += BiasCount(run, 0, false, false, true);
  }
  return run.expert_count > 0 ? count + extra.experts : count;
}

// The sizes of a model, from which each layer takes its own.
struct ModelSizes {
  TransformerRunFacts base;
  Experts experts;
  StateSpaceFacts state_space;
  LayerExtras extra;
};

// Returns the facts of one layer with these parts.
TransformerRunFacts LayerFacts(const ModelSizes& sizes, const LayerParts& parts,
                               const GivenOpaqueLayers& opaque, bool counts_all_parameters) {
  TransformerRunFacts layer = sizes.base;
  layer.layer_count = 1;
  if (parts.mixer == LayerMixer::kOpaque) {
    const GivenOpaqueLayer& given = opaque.at(parts.opaque_kind);
    TransformerRunFacts hidden;
    hidden.kind = v1::LAYER_KIND_OPAQUE;
    hidden.layer_count = 1;
    hidden.hidden_size = layer.hidden_size;
    hidden.sequence_length = layer.sequence_length;
    hidden.opaque = given.sizes;
    hidden.extra_parameter_count = given.parameter_count;
    return hidden;
  }
  if (parts.mixer != LayerMixer::kAttention) {
    layer.kind = parts.mixer == LayerMixer::kStateSpace ? v1::LAYER_KIND_STATE_SPACE
                                                        : v1::LAYER_KIND_FEED_FORWARD;
    layer.attention_head_count = 0;
    layer.key_value_head_count = 0;
    layer.head_size = 0;
    layer.latent_attention.reset();
  }
  if (parts.mixer == LayerMixer::kStateSpace) layer.state_space = sizes.state_space.space;
  layer.attention_window = parts.attention_window;
  layer.attention_chunk_size = parts.attention_chunk_size;
  if (!parts.has_feed_forward) {
    layer.feed_forward_size = 0;
    layer.feed_forward_kind = v1::FEED_FORWARD_KIND_NONE;
  } else if (parts.has_experts) {
    layer.feed_forward_size = 0;
    layer.expert_count = sizes.experts.count;
    layer.experts_per_token = sizes.experts.per_token;
    layer.expert_feed_forward_size = sizes.experts.size;
    layer.shared_expert_feed_forward_size = sizes.experts.shared_size;
  }
  if (counts_all_parameters) layer.extra_parameter_count = ExtraParameterCount(layer, sizes.extra);
  return layer;
}

// Returns the id of a layer's definition among `all`: its kind, and what sets it apart from other
// layers of that kind.
std::string LayerName(const LayerParts& parts, const std::vector<LayerParts>& all) {
  const auto others = [&](auto&& differs) {
    return std::any_of(all.begin(), all.end(), [&](const LayerParts& other) {
      return other.mixer == parts.mixer && other.has_feed_forward == parts.has_feed_forward &&
             differs(other);
    });
  };
  std::string name;
  switch (parts.mixer) {
    case LayerMixer::kAttention:
      name = "decoder";
      break;
    case LayerMixer::kStateSpace:
      name = "state-space";
      break;
    case LayerMixer::kNone:
      name = "feed-forward";
      break;
    case LayerMixer::kOpaque:
      return absl::StrCat("opaque", parts.opaque_kind == "*" ? "" : "-",
                          parts.opaque_kind == "*" ? "" : ModelIdFrom(parts.opaque_kind));
  }
  if (others([&](const LayerParts& other) { return other.has_experts != parts.has_experts; })) {
    absl::StrAppend(&name, parts.has_experts ? "-experts" : "-dense");
  }
  const bool has_window = parts.attention_window > 0 || parts.attention_chunk_size > 0;
  if (has_window && others([](const LayerParts& other) {
        return other.attention_window == 0 && other.attention_chunk_size == 0;
      })) {
    absl::StrAppend(&name, kWindowSuffix);
  }
  return name;
}

// Appends the runs of the layers, and of those that predict further tokens, which are like the last
// one.
void AddRuns(const ModelSizes& sizes, const std::vector<LayerParts>& layers, int prediction_count,
             const GivenOpaqueLayers& opaque, bool counts_all_parameters, ModelFacts& facts) {
  const bool is_uniform = std::all_of(layers.begin(), layers.end(), [&](const LayerParts& layer) {
    return layer == layers.front();
  });
  for (const LayerParts& parts : layers) {
    TransformerRunFacts layer = LayerFacts(sizes, parts, opaque, counts_all_parameters);
    if (!is_uniform || prediction_count > 0) layer.name = LayerName(parts, layers);
    if (!facts.runs.empty()) {
      layer.layer_count = facts.runs.back().layer_count;
      if (layer == facts.runs.back()) {
        ++facts.runs.back().layer_count;
        continue;
      }
      layer.layer_count = 1;
    }
    facts.runs.push_back(std::move(layer));
  }
  for (int depth = 1; depth <= prediction_count; ++depth) {
    TransformerRunFacts layer = facts.runs.back();
    layer.layer_count = 1;
    layer.prediction_depth = depth;
    layer.name = absl::StrCat("prediction-", depth);
    facts.runs.push_back(std::move(layer));
  }
}

}  // namespace

int FourTimes(int hidden_size) {
  return hidden_size <= kMaxImportCount / 4 ? hidden_size * 4 : kMaxImportCount;
}

int64_t BiasCount(const TransformerRunFacts& run, int attention_count, bool query_key_value,
                  bool output, bool feed_forward) {
  const int64_t groups =
      run.key_value_head_count > 0 ? run.key_value_head_count : run.attention_head_count;
  int64_t count = 0;
  if (query_key_value) {
    count += attention_count * (run.attention_head_count + 2 * groups) * HeadSize(run);
  }
  if (output) count += int64_t{attention_count} * run.hidden_size;
  if (!feed_forward) return count;
  const int64_t maps = run.feed_forward_kind == v1::FEED_FORWARD_KIND_SWIGLU ? 2 : 1;
  if (run.expert_count == 0) return count + maps * run.feed_forward_size + run.hidden_size;
  return count + run.expert_count * (maps * run.expert_feed_forward_size + run.hidden_size);
}

ModelFacts ReadTransformer(const FamilyTraits& traits, bool counts_all_parameters,
                           const GivenOpaqueLayers& opaque, ConfigFields& fields,
                           std::vector<std::string>* notes) {
  ModelFacts facts;
  RefuseCrossAttention(fields);
  for (const auto& [kind, given] : opaque) {
    for (const std::string& field : given.fields) fields.MarkRead(field.c_str());
  }

  ModelSizes sizes;
  TransformerRunFacts& run = sizes.base;
  run.kind = traits.is_encoder ? v1::LAYER_KIND_ENCODER : v1::LAYER_KIND_DECODER;
  run.layer_count = fields.Size({"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
  run.hidden_size = fields.Size({"hidden_size", "n_embd", "n_embed", "d_model", "dim"});
  if (run.layer_count > kMaxLayerCount) {
    fields.Fail("num_hidden_layers", absl::StrCat("must be at most ", kMaxLayerCount));
  }
  if (!fields.status().ok()) return facts;
  std::vector<LayerParts> layers = ReadLayerLayout(traits, fields, run.layer_count, opaque);
  if (!fields.status().ok()) return facts;
  const auto has = [&layers](auto&& condition) {
    return std::any_of(layers.begin(), layers.end(), condition);
  };
  const bool has_attention =
      has([](const LayerParts& layer) { return layer.mixer == LayerMixer::kAttention; });
  if (has_attention) {
    ReadHeads(traits, fields, run, notes);
  } else {
    // Sizes of a part that no layer has.
    for (const char* key : {"num_attention_heads", "n_head", "n_heads", "num_heads", "head_dim",
                            "attention_head_dim", "num_key_value_heads", "n_kv_heads"}) {
      fields.MarkRead(key);
    }
  }
  if (!fields.status().ok()) return facts;
  if (has([](const LayerParts& layer) { return layer.mixer == LayerMixer::kStateSpace; })) {
    sizes.state_space =
        ReadStateSpace(traits, run.hidden_size, HasOnlyStateSpaces(fields), fields, notes);
  }
  run.feed_forward_kind =
      traits.is_gated ? v1::FEED_FORWARD_KIND_SWIGLU : v1::FEED_FORWARD_KIND_GELU;
  ReadSequenceLength(traits, fields, run);
  if (has([](const LayerParts& layer) { return layer.has_feed_forward; })) {
    run.feed_forward_size = ReadFeedForwardSize(traits, fields, run.hidden_size, notes);
    // Llama-4 gives its dense layers a width of their own.
    const int dense_size = fields.Optional({"intermediate_size_mlp"}, 0);
    sizes.experts = ReadExperts(traits, fields, run, run.feed_forward_size);
    if (dense_size > 0) run.feed_forward_size = dense_size;
    if (sizes.experts.dense_size > 0) run.feed_forward_size = sizes.experts.dense_size;
  } else {
    for (const char* key : {"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"}) {
      fields.MarkRead(key);
    }
  }
  const bool are_named = has([](const LayerParts& layer) { return layer.has_experts; });
  for (size_t i = 0; i < layers.size(); ++i) {
    // A pattern names its layers with experts; else rules do.
    const bool in_layer = sizes.experts.count > 0 && sizes.experts.in_layer[i];
    if (!are_named) layers[i].has_experts = layers[i].has_feed_forward && in_layer;
  }
  if (are_named && sizes.experts.count == 0) {
    fields.Fail("num_experts", "is required by the layers with experts");
  }
  const int prediction_count = ReadPredictionCount(fields);
  if (prediction_count > 0 && layers.back().mixer != LayerMixer::kAttention) {
    fields.Fail("num_nextn_predict_layers", "needs attention in the last layer, which they copy");
  }
  sizes.extra = ReadExtraParameters(traits, fields, run, notes);
  sizes.extra.state_space = sizes.state_space.extra_parameter_count;
  sizes.extra.experts = sizes.experts.extra_parameter_count;
  if (!fields.status().ok()) return facts;
  AddRuns(sizes, layers, prediction_count, opaque, counts_all_parameters, facts);

  const bool has_head_bias = fields.Flag({"lm_head_bias"}, false);
  if (!counts_all_parameters) return facts;
  if (has_head_bias) facts.head_extra_parameter_count += fields.Optional({"vocab_size"}, 0);
  facts.head_extra_parameter_count += int64_t{traits.final_norm_vector_count - 1} * run.hidden_size;
  if (fields.Flag({"alibi"}, false)) {
    // Biases of scores instead of positions.
  } else if (fields.Flag({"learned_pos_emb"}, traits.has_position_table)) {
    facts.embedding_extra_parameter_count +=
        (int64_t{run.sequence_length} + traits.extra_position_count) * run.hidden_size;
  }
  if (traits.model_type == "bloom")
    facts.embedding_extra_parameter_count += int64_t{2} * run.hidden_size;
  if (traits.is_encoder) {
    // Types of tokens, and a norm behind the embedding. The head of masked words: a matrix, a norm.
    facts.embedding_extra_parameter_count +=
        (int64_t{fields.Count({"type_vocab_size"}, 2)} + 2) * run.hidden_size;
    facts.head_extra_parameter_count =
        int64_t{run.hidden_size} * run.hidden_size + 2 * int64_t{run.hidden_size};
  }
  return facts;
}

}  // namespace parplan
