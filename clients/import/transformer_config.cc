#include "clients/import/transformer_config.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "clients/import/attention_config.h"
#include "clients/import/compressed_attention.h"
#include "clients/import/end_parameters.h"
#include "clients/import/expert_config.h"
#include "clients/import/extra_parameters.h"
#include "clients/import/family_layers.h"
#include "clients/import/feed_forward_config.h"
#include "clients/import/layer_layout.h"
#include "clients/import/layer_lists.h"
#include "clients/import/layer_name.h"
#include "clients/import/layer_variants.h"
#include "clients/import/made_layers.h"
#include "clients/import/named_text.h"
#include "clients/import/state_space_config.h"
#include "planner/model/model_limits.h"
#include "planner/model/planning_problem.h"

namespace parplan {
namespace {

// Names of fields that say the same.
constexpr std::initializer_list<const char*> kLayerCounts = {
    "num_hidden_layers",      "n_layer",   "n_layers", "num_layers",
    "num_transformer_layers", "num_blocks"};
constexpr std::initializer_list<const char*> kWidths = {
    "hidden_size", "n_embd", "n_embed", "d_model", "model_dim", "block_dim", "dim"};
constexpr std::initializer_list<const char*> kPredictionCounts = {
    "num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers"};

// Refuses the field unless opaque layers explain it: their `fields` list it, or all layers are
// opaque.
void RefuseUnlessOpaque(const char* key, absl::string_view rule, const GivenOpaqueLayers& opaque,
                        ConfigFields& fields) {
  const bool is_explained =
      std::any_of(opaque.begin(), opaque.end(), [key](const auto& kind_and_layer) {
        const std::vector<std::string>& listed = kind_and_layer.second.fields;
        return kind_and_layer.first == "*" ||
               std::find(listed.begin(), listed.end(), key) != listed.end();
      });
  if (is_explained) {
    fields.MarkRead(key);
  } else {
    fields.Refuse(key, rule);
  }
}

// Refuses structures that no run has.
void RefuseOtherStructures(const FamilyTraits& traits, const GivenOpaqueLayers& opaque,
                           ConfigFields& fields) {
  const auto refuse = [&](const char* key, absl::string_view rule) {
    RefuseUnlessOpaque(key, rule, opaque, fields);
  };
  for (const char* key : {"add_cross_attention", "cross_attention_layers"}) {
    refuse(key, "is of cross-attention to another part of the model, which has no run here");
  }
  for (const char* key : {"num_hidden_groups", "num_mem_blocks"}) {
    refuse(key, "is of layers that share parameters, which have no run here");
  }
  // Gemma's are opaque (layer_variants.h).
  if (!absl::StartsWith(traits.model_type, "gemma")) {
    refuse("num_kv_shared_layers",
           "is of layers that read keys and values of earlier ones, which have no run here");
  }
  refuse("use_cla", "is of layers that share keys and values, which have no run here");
  fields.MarkRead("cla_share_factor");
  if (fields.Has("num_attention_heads")) return;
  refuse("attention_hidden_size",
         "is of attention without heads, as RWKV has it, which has no run here (--opaque)");
}

// Refuses sizes of a state space of which no field says what layers have it.
void RefuseStateSpaces(const GivenOpaqueLayers& opaque, ConfigFields& fields) {
  for (const char* key : {"mamba_d_ssm", "mamba_d_state", "mamba_n_heads", "ssm_state_size"}) {
    RefuseUnlessOpaque(key,
                       "is of a state space, and no field says which layers have one in place of "
                       "attention; layers with both beside each other have no run here (--opaque)",
                       opaque, fields);
  }
}

// Takes the sizes of state spaces as read if a list of layers names none: Granite 4.0's dense
// models have those of the hybrid ones. Returns whether there is such a list.
bool NamesNoStateSpace(const FamilyTraits& traits, ConfigFields& fields,
                       std::vector<std::string>* notes) {
  const bool has_list = fields.IsList("layer_types") || fields.IsList("layers_block_type");
  if (!traits.has_state_space_heads || !has_list) return false;
  for (const char* key :
       {"mamba_chunk_size", "mamba_conv_bias", "mamba_d_conv", "mamba_d_head", "mamba_d_state",
        "mamba_expand", "mamba_n_groups", "mamba_n_heads", "mamba_proj_bias"}) {
    fields.MarkRead(key);
  }
  fields.Note("mamba_d_state", "no layer has a state space, so that its sizes are not read", notes);
  return true;
}

// Returns whether attention is causal, and notes if a field says otherwise than the family.
bool IsCausal(const FamilyTraits& traits, ConfigFields& fields, std::vector<std::string>* notes) {
  const bool is_causal = fields.Flag({"is_causal", "causal"}, !traits.is_encoder);
  if (!ReadsBothWays(fields)) {
    if (!is_causal && !traits.is_encoder) {
      notes->push_back(absl::StrCat(fields.Given({"is_causal", "causal"}),
                                    " false: attention reads the whole sequence"));
    }
    return is_causal;
  }
  const char* const field = fields.Given({"is_causal", "causal"});
  if (is_causal && fields.Has(field)) {
    fields.Fail("use_bidirectional_attention", absl::StrCat("contradicts ", field, ", true"));
  }
  notes->push_back("use_bidirectional_attention true: attention reads the whole sequence");
  return false;
}

void ReadSequenceLength(const FamilyTraits& traits, ConfigFields& fields,
                        TransformerRunFacts& run) {
  for (const char* key :
       {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx",
        "max_sequence_length", "context_length", "max_context_length", "max_position_embedding"}) {
    const int length = fields.Optional({key}, 0);
    if (run.sequence_length == 0) run.sequence_length = length;
  }
  // A number above the limit of counts stands for no limit.
  if (run.sequence_length == 0 && fields.PositiveNumber("model_max_length", 1.0) <= kMaxImportCount)
    run.sequence_length = fields.Optional({"model_max_length"}, 0);
  fields.MarkRead("model_max_length");
  if (run.sequence_length == 0) run.sequence_length = traits.sequence_length;
}

// The number of layers that predict further tokens, the field that gives it, and their parts if
// they are not those of the last layer: of all of them, or of each.
struct PredictionLayers {
  int count = 0;
  const char* field = nullptr;
  std::optional<LayerParts> parts;
  std::vector<LayerParts> listed;
};

// Reads the parts of layers that predict further tokens. Nemotron-3 names them as layers of one
// part each, by words or letters: attention, and a feed-forward part behind it.
std::optional<LayerParts> ReadPredictionParts(ConfigFields& fields) {
  const std::string letters = fields.Text("mtp_hybrid_override_pattern");
  const std::vector<std::string> names = fields.Texts("mtp_layers_block_type");
  if (letters.empty() && names.empty()) return std::nullopt;
  LayerParts parts;
  parts.has_experts = letters == "*E" || names == std::vector<std::string>{"attention", "moe"};
  if (parts.has_experts || letters == "*-" ||
      names == std::vector<std::string>{"attention", "mlp"}) {
    return parts;
  }
  fields.Fail(names.empty() ? "mtp_hybrid_override_pattern" : "mtp_layers_block_type",
              "must be attention with a feed-forward part or experts behind it");
  return std::nullopt;
}

PredictionLayers ReadPredictionLayers(ConfigFields& fields) {
  const int layers_a_module = fields.Count({"mtp_transformer_layers"}, 1);
  PredictionLayers layers = {.count = fields.Count(kPredictionCounts, 0),
                             .field = fields.Given(kPredictionCounts)};
  const int modules = fields.Count({"num_mtp_modules"}, 0);
  if (fields.Flag({"use_mtp"}, true) && layers.count == 0) {
    layers = {.count = modules, .field = "num_mtp_modules"};
  }
  if (modules > 0 && layers_a_module != 1) {
    fields.Fail("mtp_transformer_layers", "must be 1");
  }
  if (layers.count == 0) {
    // The parts of layers that there are none of.
    fields.MarkRead("mtp_layers_block_type");
    fields.MarkRead("mtp_hybrid_override_pattern");
  } else {
    layers.parts = ReadPredictionParts(fields);
  }
  if (layers.count > kMaxFurtherTokenCount) {
    fields.Fail(layers.field, absl::StrCat("must be at most ", kMaxFurtherTokenCount));
    layers.count = 0;
  }
  return layers;
}

// The sizes of a model, from which each layer takes its own.
struct ModelSizes {
  TransformerRunFacts base;
  Experts experts;
  StateSpaceFacts state_space;
  ShortConvolution convolution;
  GatedRecurrence recurrence;
  LayerExtras extra;
};

// Returns the facts of one layer with these parts.
TransformerRunFacts LayerFacts(const ModelSizes& sizes, const LayerParts& parts,
                               const GivenOpaqueLayers& opaque, bool counts_all_parameters,
                               ConfigFields& fields) {
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
  if (parts.attention_head_count > 0) {
    // A head is as wide as one of the model.
    layer.head_size = HeadSize(sizes.base);
    layer.attention_head_count = parts.attention_head_count;
  }
  if (parts.key_value_head_count > 0) layer.key_value_head_count = parts.key_value_head_count;
  if (parts.feed_forward_size > 0) layer.feed_forward_size = parts.feed_forward_size;
  if (parts.head_size > 0) layer.head_size = parts.head_size;
  if (parts.mixer == LayerMixer::kStateSpace || parts.mixer == LayerMixer::kNone) {
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
    layer.expert_latent_size = sizes.experts.latent_size;
  }
  if (parts.mixer == LayerMixer::kConvolution) {
    return LayerOfConvolution(layer, sizes.convolution, sizes.extra, counts_all_parameters, fields);
  }
  if (parts.mixer == LayerMixer::kRecurrence) {
    return LayerOfRecurrence(layer, sizes.recurrence, sizes.extra, counts_all_parameters, fields);
  }
  if (parts.mixer == LayerMixer::kBoth) {
    return LayerOfBothMixers(layer, sizes.state_space, sizes.extra, counts_all_parameters, fields);
  }
  if (counts_all_parameters) {
    layer.extra_parameter_count =
        ExtraParameterCount(layer, sizes.extra) + parts.extra_parameter_count;
  }
  if (parts.passed_values > 0) return LayerThatPasses(layer, parts.passed_values, fields);
  return layer;
}

// Appends the runs of the layers, and of those that predict further tokens, which are like the last
// one unless they have parts of their own.
void AddRuns(const ModelSizes& sizes, const std::vector<LayerParts>& layers,
             const PredictionLayers& predictions, const GivenOpaqueLayers& opaque,
             bool counts_all_parameters, ConfigFields& fields, ModelFacts& facts) {
  const int prediction_count = predictions.count;
  const bool is_uniform = std::all_of(layers.begin(), layers.end(), [&](const LayerParts& layer) {
    return layer == layers.front();
  });
  for (const LayerParts& parts : layers) {
    TransformerRunFacts layer = LayerFacts(sizes, parts, opaque, counts_all_parameters, fields);
    if (!is_uniform || prediction_count > 0) {
      layer.name = LayerName(parts, layers, sizes.base.kind == v1::LAYER_KIND_ENCODER);
    }
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
    if (!predictions.listed.empty() || predictions.parts.has_value()) {
      const LayerParts& parts =
          predictions.listed.empty() ? *predictions.parts : predictions.listed[depth - 1];
      layer = LayerFacts(sizes, parts, opaque, counts_all_parameters, fields);
    }
    layer.layer_count = 1;
    layer.prediction_depth = depth;
    layer.name = absl::StrCat("prediction-", depth);
    facts.runs.push_back(std::move(layer));
  }
}

// Reads a model all of whose layers are opaque: the sequence, and what is before and behind them.
void ReadOpaqueModel(const FamilyTraits& traits, const std::vector<LayerParts>& layers,
                     const GivenOpaqueLayers& opaque, bool counts_all_parameters, ModelSizes& sizes,
                     ConfigFields& fields, std::vector<std::string>* notes, ModelFacts& facts) {
  sizes.base.kind = v1::LAYER_KIND_OPAQUE;
  sizes.extra.final_norm_vectors = traits.final_norm_vector_count;
  ReadSequenceLength(traits, fields, sizes.base);
  AddRuns(sizes, layers, {}, opaque, counts_all_parameters, fields, facts);
  ReadEndParameters(traits, counts_all_parameters, sizes.base, sizes.extra, fields, notes, &facts);
}

}  // namespace

ModelFacts ReadTransformer(const FamilyTraits& traits, bool counts_all_parameters,
                           const GivenOpaqueLayers& opaque, ConfigFields& fields,
                           std::vector<std::string>* notes) {
  ModelFacts facts;
  RefuseOtherStructures(traits, opaque, fields);
  for (const auto& [kind, given] : opaque) {
    for (const std::string& field : given.fields) fields.MarkRead(field.c_str());
  }

  ModelSizes sizes;
  TransformerRunFacts& run = sizes.base;
  run.kind = IsCausal(traits, fields, notes) ? v1::LAYER_KIND_DECODER : v1::LAYER_KIND_ENCODER;
  run.layer_count = CountPairedLayers(traits, fields, notes);
  if (run.layer_count == 0) {
    run.layer_count = fields.Optional(kLayerCounts, ListedLayerCount(fields));
  }
  if (run.layer_count == 0) fields.Size({"num_hidden_layers"});
  run.hidden_size = fields.Size(kWidths);
  if (run.layer_count > kMaxLayerCount) {
    fields.Fail(fields.Given(kLayerCounts), absl::StrCat("must be at most ", kMaxLayerCount));
  }
  if (!fields.status().ok()) return facts;
  const int listed_predictions = ListedPredictionCount(fields, run.layer_count);
  const int listed_count = run.layer_count + listed_predictions;
  std::vector<LayerParts> layers = ReadLayerLayout(traits, fields, listed_count, opaque);
  if (!fields.status().ok()) return facts;
  if (std::all_of(layers.begin(), layers.end(),
                  [](const LayerParts& layer) { return layer.mixer == LayerMixer::kOpaque; })) {
    ReadOpaqueModel(traits, layers, opaque, counts_all_parameters, sizes, fields, notes, facts);
    return facts;
  }
  const auto has = [&layers](auto&& condition) {
    return std::any_of(layers.begin(), layers.end(), condition);
  };
  const auto has_mixer = [&has](LayerMixer mixer) {
    return has([mixer](const LayerParts& layer) { return layer.mixer == mixer; });
  };
  const bool has_both = has_mixer(LayerMixer::kBoth);
  const bool has_attention = has_both || has_mixer(LayerMixer::kAttention);
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
  if (has_attention) ReadLayerLists(traits, fields, run, layers, notes);
  if (!fields.status().ok()) return facts;
  if (has_attention) ReadLayerVariants(traits, fields, run, layers, facts, notes);
  if (has_both || has_mixer(LayerMixer::kStateSpace)) {
    sizes.state_space =
        ReadStateSpace(traits, run.hidden_size, HasOnlyStateSpaces(fields), fields, notes);
  } else if (!NamesNoStateSpace(traits, fields, notes)) {
    RefuseStateSpaces(opaque, fields);
  }
  if (has_both) NoteMixersBesideEachOther(notes);
  if (has_mixer(LayerMixer::kConvolution)) {
    sizes.convolution = ReadShortConvolution(fields, run.hidden_size, notes);
  }
  if (has_mixer(LayerMixer::kRecurrence)) {
    sizes.recurrence = ReadGatedRecurrence(fields, run.hidden_size, notes);
  }
  const bool is_gated = ReadGate(traits, fields);
  run.feed_forward_kind = is_gated ? v1::FEED_FORWARD_KIND_SWIGLU : v1::FEED_FORWARD_KIND_GELU;
  ReadSequenceLength(traits, fields, run);
  if (has([](const LayerParts& layer) { return layer.has_feed_forward; })) {
    // Layers may have widths of their own, whatever the model's says.
    const bool is_shared = has([](const LayerParts& layer) {
      return layer.has_feed_forward && layer.feed_forward_size == 0;
    });
    if (is_shared) {
      run.feed_forward_size = ReadFeedForwardSize(traits, fields, run.hidden_size, notes);
    }
    fields.MarkRead("intermediate_size");
    // Llama-4 gives its dense layers a width of their own.
    const int dense_size =
        fields.Optional({"intermediate_size_mlp", "dense_intermediate_size",
                         "mlp_intermediate_size", "prefix_dense_intermediate_size"},
                        0);
    TransformerRunFacts all = run;
    all.layer_count = listed_count;
    sizes.experts = ReadExperts(traits, fields, all, run.feed_forward_size, notes);
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
  PredictionLayers predictions = ReadPredictionLayers(fields);
  if (listed_predictions > 0) {
    if (predictions.count != listed_predictions) {
      fields.Fail("layer_types",
                  "names layers that predict further tokens, of which there are none");
    }
    predictions.listed.assign(layers.end() - listed_predictions, layers.end());
    layers.resize(run.layer_count);
  }
  // Opaque layers predict no further tokens; a note says so (compressed_attention.h).
  if (HasCompressedAttention(traits)) predictions.count = 0;
  if (predictions.count > 0 && !predictions.parts.has_value() && predictions.listed.empty() &&
      layers.back().mixer != LayerMixer::kAttention) {
    fields.Fail(predictions.field, "needs attention in the last layer, which they copy");
  }
  if (predictions.parts.has_value() &&
      (!has_attention || (predictions.parts->has_experts && sizes.experts.count == 0))) {
    fields.Fail(predictions.field, "needs the sizes of attention and of experts in the model");
  }
  sizes.extra = ReadLayerExtras(traits, fields, run, notes);
  sizes.extra.state_space = sizes.state_space.extra_parameter_count;
  sizes.extra.experts = sizes.experts.extra_parameter_count;
  if (has_attention) sizes.extra.attention += FamilyParameterCount(traits, fields, run, notes);
  if (!fields.status().ok()) return facts;
  AddRuns(sizes, layers, predictions, opaque, counts_all_parameters, fields, facts);

  ReadEndParameters(traits, counts_all_parameters, run, sizes.extra, fields, notes, &facts);
  return facts;
}

}  // namespace parplan
