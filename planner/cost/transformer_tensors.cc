#include "planner/cost/transformer_tensors.h"

#include <algorithm>
#include <optional>

#include "planner/model/layer_matrices.h"

namespace parplan {
namespace {

using enum TensorLifetime;
using Module = RecomputeModule;

double ScoreElements(const TensorSizes& shape) {
  return shape.heads * shape.tokens * shape.all_tokens / shape.tensor;
}

// Returns the bytes that the input of a linear map takes which is as wide as the layer.
double InputBytes(const TensorSizes& shape, const RuntimeTraits& traits) {
  const double input = shape.input * shape.tokens * shape.hidden / shape.sequence;
  return traits.keeps_gathered_inputs ? input * shape.sequence : input;
}

// Returns the lifetime of tensors that selective recomputation of operators repeats: all but those
// of fused attention and the outputs of every second product.
TensorLifetime LifetimeOfRecomputed(const RuntimeTraits& traits) {
  return traits.selective_recompute == SelectiveRecompute::kOperators ? kAttentionCore : kLayer;
}

// Adds the tensors of an attention block after its norm. Every tensor-parallel rank has at least
// one key-value head.
void AddAttention(const LayerDefinition& definition, const TensorSizes& shape,
                  const RuntimeTraits& traits, bool cross, ActivationTensors& tensors) {
  const double residual = shape.element * shape.tokens * shape.hidden / shape.sequence;
  const double query = shape.element * shape.tokens * shape.query / shape.tensor;
  const double output = shape.element * shape.tokens * shape.output / shape.tensor;
  const double key =
      shape.element * shape.tokens * std::max(shape.key / shape.tensor, shape.key_head);
  const double value =
      shape.element * shape.tokens * std::max(shape.value / shape.tensor, shape.value_head);
  const double scores = ScoreElements(shape);
  const double input = InputBytes(shape, traits);
  const bool is_quantised = shape.input != shape.element;
  const TensorLifetime again = LifetimeOfRecomputed(traits);
  const bool is_latent = definition.latent_attention.has_value();
  const auto latent = [is_latent](Module module) {
    return is_latent ? std::optional(module) : std::nullopt;
  };
  // Attention over shared tokens keeps keys and values in a form of its own, and so does Ulysses
  // queries, so that making them again frees nothing.
  const bool frees_query = !shape.is_ulysses;
  const bool frees_key = frees_query && !shape.is_ring;

  tensors.Add(cross ? "cross-attention norm input" : "attention norm input", "e s h / r", residual,
              cross ? kLayer : kCheckpoint);
  // Only the gradient of the weights reads the input of a linear map.
  const bool keeps_inputs = !definition.frozen || definition.attention_adapter_rank > 0;
  if (keeps_inputs) {
    tensors.Add("query, key and value projection input", "i s h / r (i s h if kept gathered)",
                input, again, latent(Module::kNorms));
  }
  if (is_latent) AddCompressedVectors(*definition.latent_attention, shape, again, tensors);
  const auto up = latent(Module::kLatentUpProjection);
  tensors.Add("query", "e s q / t", query, kLayer, up, frees_query ? 1.0 : 0.0);
  tensors.Add("key", "e s k / t", key, again, up, frees_key ? 1.0 : 0.0);
  tensors.Add("value", "e s k / t", value, kLayer, up, frees_key ? 1.0 : 0.0);
  if (traits.attention_kernel == AttentionKernel::kFlash) {
    const bool repeats = traits.RepeatsCoreAttention();
    const auto core = repeats ? std::optional(Module::kCoreAttention) : std::nullopt;
    tensors.Add("log-sum-exp of scores", "4 a s / t",
                4.0 * shape.heads * shape.tokens / shape.tensor, repeats ? kAttentionCore : kLayer,
                core);
    // Attention's backward pass reads its output as it was before quantisation.
    if (traits.attention_output_copied || is_quantised) {
      const bool frees = repeats || again == kAttentionCore;
      tensors.Add("attention output before its copy", "e s q / t", output,
                  frees ? kAttentionCore : kLayer, core);
    }
  } else {
    tensors.Add("softmax output", "e a s S / t", shape.element * scores, kAttentionCore,
                Module::kCoreAttention);
    if (traits.attention_dropout) {
      tensors.Add("attention dropout mask", "a s S / t", scores, kAttentionCore,
                  Module::kCoreAttention);
      tensors.Add("attention dropout output", "e a s S / t", shape.element * scores, kAttentionCore,
                  Module::kCoreAttention);
    }
  }
  // Fused attention needs it in 16 bits too, which it is unless it was quantised.
  if (keeps_inputs || !is_quantised) {
    tensors.Add("attention projection input", "i s q / t",
                shape.input * shape.tokens * shape.output / shape.tensor, kLayer);
  }
  if (traits.hidden_dropout) {
    tensors.Add("dropout mask after attention", "s h / r",
                shape.tokens * shape.hidden / shape.sequence, kLayer);
  }
}

// A feed-forward part, and the smallest modules that make it again: its tensors before and behind
// the activation function.
struct FeedForwardPart {
  FeedForwardKind kind = FeedForwardKind::kGelu;
  double width = 0.0;
  // Copies of each token.
  double passes = 1.0;
  // Whether a gradient of the weights reads the inputs of the maps.
  bool keeps_inputs = true;
  Module module = Module::kFeedForward;
  Module activation_module = Module::kFeedForward;
};

// Adds the tensors of a part, after its norm. Returns the bytes of its inner tensors.
double AddFeedForward(const TensorSizes& shape, const RuntimeTraits& traits,
                      const FeedForwardPart& part, ActivationTensors& tensors) {
  const double inner = shape.element * part.passes * shape.tokens * part.width / shape.tensor;
  // The input of the second map, which only the gradient of its weights reads.
  const double input = part.keeps_inputs
                           ? shape.input * part.passes * shape.tokens * part.width / shape.tensor
                           : 0.0;
  const TensorLifetime again = LifetimeOfRecomputed(traits);
  if (part.kind == FeedForwardKind::kSwiglu) {
    tensors.Add("gate projection output", "n e s f / t", inner, kLayer, part.module);
    tensors.Add("up projection output", "n e s f / t", inner, again, part.module);
    if (!traits.fused_elementwise) {
      tensors.Add("activated gate", "n e s f / t", inner, again, part.activation_module);
    }
    tensors.Add("down projection input", "n i s f / t", input, again, part.activation_module);
    return (traits.fused_elementwise ? 2.0 : 3.0) * inner + input;
  }
  tensors.Add("GELU input", "n e s f / t", inner, kLayer, part.module);
  tensors.Add("second feed-forward matrix input", "n i s f / t", input, again,
              part.activation_module);
  return inner + input;
}

// Adds the needs of the backward pass of a runtime with `reuses_activations`. `inner` bytes of the
// feed-forward part are free once the pass reaches attention.
void AddReusingBackward(const TensorSizes& shape, double inner, ActivationTensors& tensors) {
  const double row = shape.element * shape.tokens;
  const double whole = row * shape.hidden;
  const double residual = whole / shape.sequence;
  const double query = row * shape.query / shape.tensor;
  const double key_value = row * shape.key / shape.tensor;
  const bool is_split = shape.sequence > 1.0;
  // Means and deviations of both norms.
  tensors.Add("norm statistics", "16 s / r", 16.0 * shape.tokens / shape.sequence, kLayer);
  if (shape.is_ulysses) {
    tensors.Add("attention output before its exchange", "e s q / t", query, kLayer);
  }
  // Present and arriving keys and values, and their gradients: own, leaving and arriving ones.
  const double ring = shape.is_ring ? 10.0 * key_value : 0.0;
  const double gathered = is_split ? whole : 0.0;
  // Keys and values of all ranks, and their gradients.
  const double all_ranks = 4.0 * key_value * shape.gathered;
  const double attention = 2.0 * query + 2.0 * key_value + ring + all_ranks;
  // Freed before the pass reaches attention.
  const double freed = inner + 2.0 * residual + 8.0 * shape.tokens / shape.sequence;
  if (attention - freed > gathered) {
    tensors.Add("gradients inside the layer", "e s h / r + attention", residual + attention,
                kBackward);
    tensors.Add("feed-forward tensors", "2 e s h / r + n e s f / t + 8 s / r", freed, kFreed);
  } else {
    tensors.Add("gradients inside the layer", "e s h / r + (e s h if r > 1)", residual + gathered,
                kBackward);
  }
  // The last product's output, before and after its sum over tensor-parallel ranks.
  tensors.Add("output made again", "e s h / r + e s h + (e s h / r if r > 1)",
              residual + whole + (is_split ? residual : 0.0), kFullRecompute);
  if (shape.is_ring) {
    tensors.Add(
        "attention made again", "e s h / r + 4 e s k / t + e s q / t + 4 a s / t",
        residual + 4.0 * key_value + query + 4.0 * shape.heads * shape.tokens / shape.tensor,
        kSelectiveRecompute);
  }
}

// Adds what a split backward pass keeps for the gradients of weights: those of the outputs of all
// linear maps and norms. For layers with experts, latent attention or a state space as much is
// taken as the layer keeps of its forward pass.
void AddWeightGradients(const LayerDefinition& definition, const TensorSizes& shape,
                        ActivationTensors& tensors) {
  const char* const name = "gradients of the outputs of linear maps";
  if (definition.has_experts() || definition.latent_attention.has_value() ||
      definition.state_space.has_value()) {
    const ActivationBytes kept = tensors.Sum();
    tensors.Add(name, "as much as is kept", kept.Kept(RecomputeLevel::kNone), kWeightGradients);
    return;
  }
  const double row = shape.element * shape.tokens;
  const double residual = row * shape.hidden / shape.sequence;
  const int blocks = AttentionBlockCount(definition.kind);
  // Queries, keys and values; the block's output, as the map makes it; and the norm's.
  double bytes = blocks * (row * (shape.query + shape.key + shape.value) / shape.tensor +
                           row * shape.hidden + residual);
  if (definition.has_feed_forward()) {
    const bool swiglu = definition.feed_forward_kind == FeedForwardKind::kSwiglu;
    bytes += row * (swiglu ? 2.0 : 1.0) * definition.feed_forward_size / shape.tensor +
             row * shape.hidden + residual;
  }
  tensors.Add(name, "n (e s (q + 2 k) / t + e s h + e s h / r) + e s f / t (2 with a gate) + ...",
              bytes, kWeightGradients);
}

}  // namespace

void AddTransformer(const LayerDefinition& definition, const TensorSizes& shape,
                    const RuntimeTraits& traits, ActivationTensors& tensors) {
  const double residual = shape.element * shape.tokens * shape.hidden / shape.sequence;
  const bool swiglu = definition.feed_forward_kind == FeedForwardKind::kSwiglu;
  const bool has_mixer = definition.kind != LayerKind::kFeedForward;
  if (definition.prediction_depth > 0) AddPrediction(shape, tensors);
  if (HasAttention(definition.kind)) {
    AddAttention(definition, shape, traits, /*cross=*/false, tensors);
  }
  if (definition.kind == LayerKind::kCrossDecoder) {
    AddAttention(definition, shape, traits, /*cross=*/true, tensors);
  }
  if (definition.state_space.has_value()) AddStateSpace(*definition.state_space, shape, tensors);
  const TensorLifetime again = LifetimeOfRecomputed(traits);
  const bool keeps_inputs = !definition.frozen || definition.feed_forward_adapter_rank > 0;
  if (definition.has_feed_forward()) {
    tensors.Add("feed-forward norm input", "e s h / r", residual, has_mixer ? again : kCheckpoint);
    if (keeps_inputs) {
      tensors.Add("first feed-forward matrix input", "i s h / r (i s h if kept gathered)",
                  InputBytes(shape, traits), again,
                  definition.has_experts() ? Module::kNorms : Module::kFeedForward);
    }
  }
  if (again != kLayer && swiglu) {
    tensors.Add("saved output of the layer's last product", "e s h / r", residual, kLayer);
  }

  double inner = 0.0;
  // Gradients of the output and of the input of the activation function.
  double feed_forward_gradients = 0.0;
  if (!definition.has_experts()) {
    inner = AddFeedForward(shape, traits,
                           {.kind = definition.feed_forward_kind,
                            .width = static_cast<double>(definition.feed_forward_size),
                            .keeps_inputs = keeps_inputs},
                           tensors);
    // Autograd has freed the last matrix's input, as large as one of them, when it makes the
    // others.
    const double count = (swiglu ? 3.0 : 2.0) - (traits.measures_saved_tensors ? 1.0 : 0.0);
    feed_forward_gradients =
        shape.element * shape.tokens * definition.feed_forward_size / shape.tensor * count;
  } else {
    // Experts are split over tensor-parallel ranks like any feed-forward part, so their
    // tokens are whole on each. Ranks that share an expert gather theirs.
    const double passes = definition.experts_per_token;
    const double routed = passes * shape.element * shape.expert_tokens * definition.expert_width();
    tensors.Add("router scores", "8 s E / r",
                8.0 * shape.tokens * definition.expert_count / shape.sequence, kLayer,
                Module::kExperts);
    if (definition.expert_latent_size > 0 && keeps_inputs) {
      tensors.Add("expert outputs before the map back", "i s l / r",
                  shape.input * shape.tokens * definition.expert_latent_size / shape.sequence,
                  again, Module::kExperts);
    }
    const double exchanged = traits.keeps_exchanged_tokens ? routed : 0.0;
    tensors.Add("tokens before the experts", "n e s h", exchanged, kLayer, Module::kExperts);
    const double sorted = keeps_inputs ? routed / shape.element * shape.input : 0.0;
    tensors.Add("tokens in the experts' order", "n i s h", sorted, kLayer, Module::kExperts);
    tensors.Add("expert output", "n e s h", exchanged, kLayer, Module::kExperts);
    inner = AddFeedForward(shape, traits,
                           {.kind = definition.feed_forward_kind,
                            .width = static_cast<double>(definition.expert_feed_forward_size),
                            .passes = passes,
                            .keeps_inputs = keeps_inputs,
                            .module = Module::kExperts,
                            .activation_module = Module::kExpertActivation},
                           tensors);
    const double one =
        shape.element * passes * shape.tokens * definition.expert_feed_forward_size / shape.tensor;
    if (!traits.keeps_exchanged_tokens) {
      // The input of the last product is the weighted activation. The gradient of the weights reads
      // what they weigh, which one kernel for SwiGLU and its weights makes again.
      if (!swiglu || !traits.fused_elementwise) {
        tensors.Add("activation before the router's weights", "n e s f / t", one, kLayer,
                    Module::kExpertActivation);
      }
      tensors.Add("weights of the tokens in the experts' order", "4 n s",
                  4.0 * passes * shape.expert_tokens, kLayer, Module::kExperts);
    }
    feed_forward_gradients = (swiglu ? 3.0 : 2.0) * one + 2.0 * routed;
    inner += 2.0 * exchanged + sorted;
    if (definition.shared_expert_feed_forward_size > 0) {
      inner +=
          AddFeedForward(shape, traits,
                         {.kind = definition.feed_forward_kind,
                          .width = static_cast<double>(definition.shared_expert_feed_forward_size),
                          .keeps_inputs = keeps_inputs,
                          .module = Module::kSharedExperts,
                          .activation_module = Module::kSharedExperts},
                         tensors);
    }
  }
  if (traits.hidden_dropout && definition.has_feed_forward()) {
    tensors.Add("dropout mask after the feed-forward part", "s h / r",
                shape.tokens * shape.hidden / shape.sequence, kLayer);
  }

  if (traits.splits_backward) AddWeightGradients(definition, shape, tensors);
  if (traits.reuses_activations) {
    AddReusingBackward(shape, inner, tensors);
    return;
  }
  // While the backward pass runs: the gradient of the layer's output, and the inner gradients of
  // the part it works on. Once it reaches attention, the feed-forward part is freed.
  double attention_gradients =
      traits.attention_kernel == AttentionKernel::kUnfused
          ? 2.0 * shape.element * ScoreElements(shape)
          : shape.element * shape.tokens * (shape.query + (shape.key + shape.value)) / shape.tensor;
  if (shape.gathered > 0.0) {
    // Keys and values of all ranks, and their gradients.
    attention_gradients += 2.0 * shape.gathered * shape.element * shape.tokens *
                           (shape.key + shape.value) / shape.tensor;
  }
  if (definition.state_space.has_value()) {
    attention_gradients =
        shape.element * shape.tokens * ProjectedWidth(*definition.state_space) / shape.tensor;
  }
  tensors.Add("gradients inside the layer",
              "e s h / r + max(feed-forward, attention - feed-forward tensors)",
              residual + std::max(feed_forward_gradients, attention_gradients - inner), kBackward);
}

}  // namespace parplan
