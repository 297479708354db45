#include "clients/import/made_layers.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "clients/import/attention_config.h"
#include "planner/model/layer_definition.h"
#include "planner/model/layer_matrices.h"

namespace parplan {
namespace {

FeedForwardKind KindOf(v1::FeedForwardKind kind) {
  if (kind == v1::FEED_FORWARD_KIND_SWIGLU) return FeedForwardKind::kSwiglu;
  return kind == v1::FEED_FORWARD_KIND_NONE ? FeedForwardKind::kAbsent : FeedForwardKind::kGelu;
}

// Returns the parameters that follow from the sizes of `definition`; 0 after an error.
int64_t ParametersOf(const LayerDefinition& definition, ConfigFields& fields) {
  const absl::StatusOr<LayerDefinition> checked = LayerDefinition::Create(definition, "layer");
  if (checked.ok()) return checked->parameter_count;
  fields.Fail("hidden_size",
              absl::StrCat("and other sizes break a rule: ", checked.status().message()));
  return 0;
}

// The feed-forward part of `run`, alone or behind its attention.
LayerDefinition DefinitionOf(const TransformerRunFacts& run, LayerKind kind) {
  LayerDefinition definition;
  definition.layer_definition_id = "layer";
  definition.kind = kind;
  definition.hidden_size = run.hidden_size;
  definition.sequence_length = 1;
  definition.feed_forward_size = run.feed_forward_size;
  definition.feed_forward_kind = KindOf(run.feed_forward_kind);
  definition.expert_count = run.expert_count;
  definition.experts_per_token = run.experts_per_token;
  definition.expert_feed_forward_size = run.expert_feed_forward_size;
  definition.shared_expert_feed_forward_size = run.shared_expert_feed_forward_size;
  definition.expert_latent_size = run.expert_latent_size;
  if (kind == LayerKind::kFeedForward) return definition;
  definition.attention_head_count = run.attention_head_count;
  definition.key_value_head_count = run.key_value_head_count;
  definition.head_size = run.head_size;
  definition.latent_attention = run.latent_attention;
  return definition;
}

// Returns the values of one token that the feed-forward part keeps: its input and the output of its
// norm, and of each width the results of the products, of the activation and of the gate.
int64_t FeedForwardValues(const TransformerRunFacts& run) {
  const int64_t tensors = run.feed_forward_kind == v1::FEED_FORWARD_KIND_SWIGLU ? 4 : 2;
  const int64_t width = run.expert_count == 0
                            ? run.feed_forward_size
                            : int64_t{run.experts_per_token} * run.expert_feed_forward_size +
                                  run.shared_expert_feed_forward_size;
  // Each chosen expert reads a copy of the token, or of its narrow form; the map back reads
  // another.
  const int64_t read = run.expert_latent_size > 0 ? run.expert_latent_size : run.hidden_size;
  return 2 * int64_t{run.hidden_size} + run.experts_per_token * read + run.expert_latent_size +
         tensors * width;
}

TransformerRunFacts Opaque(const TransformerRunFacts& layer, int64_t parameter_count,
                           int64_t kept_values) {
  TransformerRunFacts opaque;
  opaque.kind = v1::LAYER_KIND_OPAQUE;
  opaque.layer_count = layer.layer_count;
  opaque.hidden_size = layer.hidden_size;
  opaque.sequence_length = layer.sequence_length;
  opaque.opaque.emplace();
  opaque.opaque_kept_values_per_token = kept_values;
  opaque.extra_parameter_count = parameter_count;
  return opaque;
}

// Returns the opaque layer of a mixer with these parameters and kept values of a token, and of the
// feed-forward part of `layer`.
TransformerRunFacts WithFeedForward(const TransformerRunFacts& layer, int64_t parameters,
                                    int64_t kept, const LayerExtras& extra,
                                    bool counts_all_parameters, ConfigFields& fields) {
  if (layer.feed_forward_kind != v1::FEED_FORWARD_KIND_NONE) {
    parameters += ParametersOf(DefinitionOf(layer, LayerKind::kFeedForward), fields);
    kept += FeedForwardValues(layer);
    if (counts_all_parameters) {
      TransformerRunFacts alone = layer;
      alone.kind = v1::LAYER_KIND_FEED_FORWARD;
      parameters += ExtraParameterCount(alone, extra);
    }
  }
  return Opaque(layer, parameters, kept);
}

constexpr char kOpaqueMeans[] =
    ": their layers are opaque, without tensor parallelism, and are planned with measured times "
    "only; their parameters follow from the fields, and what they keep from the tensors of PyTorch";

}  // namespace

int64_t StateSpaceParameters(int hidden_size, const StateSpaceFacts& state_space,
                             ConfigFields& fields) {
  LayerDefinition recurrence;
  recurrence.layer_definition_id = "layer";
  recurrence.kind = LayerKind::kStateSpace;
  recurrence.hidden_size = hidden_size;
  recurrence.sequence_length = 1;
  recurrence.feed_forward_kind = FeedForwardKind::kAbsent;
  recurrence.state_space = state_space.space;
  return ParametersOf(recurrence, fields);
}

int64_t StateSpaceValues(const StateSpace& space) {
  const int64_t states = 2 * int64_t{space.group_count} * space.state_size;
  int64_t kept = static_cast<int64_t>(ProjectedWidth(space)) + space.inner_size + states +
                 2 * int64_t{space.inner_size};
  if (space.chunk_size > 0) {
    kept += int64_t{space.inner_size} * space.state_size / space.chunk_size;
  }
  return kept;
}

ShortConvolution ReadShortConvolution(ConfigFields& fields, int hidden_size,
                                      std::vector<std::string>* notes) {
  const ShortConvolution convolution = {.width = fields.Size({"conv_L_cache"}),
                                        .has_bias = fields.Flag({"conv_bias"}, false)};
  for (const char* key : {"conv_dim", "conv_dim_out"}) {
    if (fields.Optional({key}, hidden_size) != hidden_size) {
      fields.Fail(key, absl::StrCat("must be the width of the layers, ", hidden_size));
    }
  }
  notes->push_back(absl::StrCat("convolutions over ", convolution.width, " tokens", kOpaqueMeans));
  return convolution;
}

void NoteMixersBesideEachOther(std::vector<std::string>* notes) {
  notes->push_back(absl::StrCat("attention and a state space beside each other", kOpaqueMeans));
}

GatedRecurrence ReadGatedRecurrence(ConfigFields& fields, int hidden_size,
                                    std::vector<std::string>* notes) {
  const GatedRecurrence recurrence = {.width = fields.Optional({"lru_width"}, hidden_size),
                                      .convolution_width = fields.Optional({"conv1d_width"}, 4),
                                      .block_count = fields.Size({"num_attention_heads"})};
  if (recurrence.width % recurrence.block_count != 0) {
    fields.Fail("lru_width", absl::StrCat("must be a multiple of num_attention_heads, ",
                                          recurrence.block_count));
  }
  notes->push_back(absl::StrCat("recurrences of ", recurrence.width, " channels", kOpaqueMeans));
  return recurrence;
}

TransformerRunFacts LayerOfConvolution(const TransformerRunFacts& layer,
                                       const ShortConvolution& convolution,
                                       const LayerExtras& extra, bool counts_all_parameters,
                                       ConfigFields& fields) {
  const int64_t hidden = layer.hidden_size;
  // The products, the convolution and its norms, which are half of those of the layer.
  int64_t parameters =
      hidden * 4 * hidden + hidden * convolution.width + hidden * extra.norm_vectors / 2;
  if (convolution.has_bias) parameters += 5 * hidden;
  // Its input, the norm's output, three vectors, their product, the convolution's output and the
  // input of the last product.
  return WithFeedForward(layer, parameters, 8 * hidden, extra, counts_all_parameters, fields);
}

TransformerRunFacts LayerOfRecurrence(const TransformerRunFacts& layer,
                                      const GatedRecurrence& recurrence, const LayerExtras& extra,
                                      bool counts_all_parameters, ConfigFields& fields) {
  const int64_t hidden = layer.hidden_size;
  const int64_t width = recurrence.width;
  // Three products with biases and the norm before them; the convolution with its bias; two gates,
  // whose matrices have blocks, with biases; a decay of each channel.
  const int64_t parameters = 3 * hidden * width + 2 * width + hidden + hidden +
                             width * (recurrence.convolution_width + 1) +
                             2 * (width * (width / recurrence.block_count) + width) + width;
  // Its input and the norm's output; both branches, the activation of one, the other one's
  // convolution, two gates, the decay, the recurrence's input and output, and the product of both.
  const int64_t kept = 2 * hidden + 10 * width;
  return WithFeedForward(layer, parameters, kept, extra, counts_all_parameters, fields);
}

TransformerRunFacts LayerThatPasses(const TransformerRunFacts& layer, int64_t passed_values,
                                    ConfigFields& fields) {
  const int64_t parameters =
      ParametersOf(DefinitionOf(layer, LayerKind::kDecoder), fields) + layer.extra_parameter_count;
  const int64_t groups =
      layer.key_value_head_count > 0 ? layer.key_value_head_count : layer.attention_head_count;
  // The values that the layer before passed on, the norm's output; queries, keys, values and
  // attention's output.
  int64_t kept = passed_values + layer.hidden_size +
                 2 * (layer.attention_head_count + groups) * HeadSize(layer);
  if (layer.feed_forward_kind != v1::FEED_FORWARD_KIND_NONE) kept += FeedForwardValues(layer);
  TransformerRunFacts opaque = Opaque(layer, parameters, kept);
  opaque.opaque_passed_values_per_token = passed_values;
  return opaque;
}

TransformerRunFacts LayerOfBothMixers(const TransformerRunFacts& layer,
                                      const StateSpaceFacts& state_space, const LayerExtras& extra,
                                      bool counts_all_parameters, ConfigFields& fields) {
  const int64_t of_recurrence = StateSpaceParameters(layer.hidden_size, state_space, fields);
  const int64_t of_attention = ParametersOf(DefinitionOf(layer, LayerKind::kDecoder), fields);
  if (!fields.status().ok()) return Opaque(layer, 0, 0);
  // They have one norm in common.
  int64_t parameters = of_attention + of_recurrence - layer.hidden_size;
  if (counts_all_parameters) {
    parameters += ExtraParameterCount(layer, extra) + state_space.extra_parameter_count;
  }
  const int64_t hidden = layer.hidden_size;
  const int64_t groups =
      layer.key_value_head_count > 0 ? layer.key_value_head_count : layer.attention_head_count;
  // The layer's input and the norm's output; queries, keys, values and attention's output.
  int64_t kept = 2 * hidden + 2 * (layer.attention_head_count + groups) * HeadSize(layer);
  kept += StateSpaceValues(state_space.space);
  if (layer.feed_forward_kind != v1::FEED_FORWARD_KIND_NONE) kept += FeedForwardValues(layer);
  return Opaque(layer, parameters, kept);
}

}  // namespace parplan
