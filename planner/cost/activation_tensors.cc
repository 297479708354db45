#include "planner/cost/activation_tensors.h"

#include <algorithm>

#include "base/check.h"
#include "planner/cost/structure_tensors.h"
#include "planner/cost/transformer_tensors.h"

namespace parplan {
namespace {

using enum TensorLifetime;

// Megatron's --make-vocab-size-divisible-by.
constexpr int kVocabularyMultiple = 128;

}  // namespace

void ActivationTensors::Add(absl::string_view name, absl::string_view formula, double bytes,
                            TensorLifetime lifetime, std::optional<RecomputeModule> module,
                            double share) {
  if (bytes <= 0.0) return;
  PARPLAN_CHECK(size_ < kCapacity);
  tensors_[size_++] = {name, formula, bytes, lifetime, module, bytes * share};
}

ActivationBytes ActivationTensors::Sum() const {
  ActivationBytes sum;
  for (const ActivationTensor& tensor : *this) {
    if (tensor.module.has_value()) {
      sum.by_module[static_cast<int>(*tensor.module)] += tensor.module_bytes;
    }
    switch (tensor.lifetime) {
      case kCheckpoint:
        sum.checkpoint += tensor.bytes;
        break;
      case kLayer:
        sum.layer += tensor.bytes;
        break;
      case kAttentionCore:
        sum.attention_core += tensor.bytes;
        break;
      case kBackward:
        sum.backward += tensor.bytes;
        break;
      case kLogits:
        sum.logits += tensor.bytes;
        break;
      case kFullRecompute:
        sum.full_recompute += tensor.bytes;
        break;
      case kSelectiveRecompute:
        sum.selective_recompute += tensor.bytes;
        break;
      case kFreed:
        sum.freed += tensor.bytes;
        break;
      case kWeightGradients:
        sum.weight_gradients += tensor.bytes;
        break;
    }
  }
  return sum;
}

int PaddedVocabularySize(int vocabulary_size, const RuntimeTraits& traits,
                         int tensor_parallel_degree) {
  if (!traits.pad_vocabulary) return vocabulary_size;
  const int multiple = kVocabularyMultiple * tensor_parallel_degree;
  return (vocabulary_size + multiple - 1) / multiple * multiple;
}

ActivationTensors ActivationTensorsOf(const LayerDefinition& definition, Precision precision,
                                      const RuntimeTraits& traits, const Strategy& strategy) {
  const TensorSizes shape = TensorSizesOf(definition, precision, strategy);
  const double residual = shape.element * shape.tokens * shape.hidden / shape.sequence;
  const double gathered = strategy.sequence_parallel && strategy.tensor_parallel_degree > 1
                              ? residual * shape.sequence
                              : 0.0;
  ActivationTensors tensors;
  switch (definition.kind) {
    case LayerKind::kDecoder:
    case LayerKind::kEncoder:
    case LayerKind::kCrossDecoder:
    case LayerKind::kStateSpace:
    case LayerKind::kFeedForward:
      AddTransformer(definition, shape, traits, tensors);
      break;
    case LayerKind::kOpaque: {
      const OpaqueTensorDegree part = OpaquePart(definition, strategy.tensor_parallel_degree);
      tensors.Add("layer input", "e s h", residual, kCheckpoint);
      tensors.Add("tensors of the opaque layer", "given",
                  static_cast<double>(part.kept_bytes_per_sample) - residual, kLayer);
      tensors.Add("gradient of the output", "e s h", residual, kBackward);
      break;
    }
    case LayerKind::kEmbedding:
      if (traits.reuses_activations) {
        tensors.Add("gradient of the output", "e s h / r + (e s h if r > 1)", residual + gathered,
                    kBackward);
        break;
      }
      // Token and position numbers of 8 bytes, and the loss mask beside them.
      tensors.Add("token numbers", "16 s", 16.0 * shape.tokens, kCheckpoint);
      if (traits.hidden_dropout) {
        tensors.Add("embedding dropout mask", "s h / r",
                    shape.tokens * shape.hidden / shape.sequence, kLayer);
      }
      tensors.Add("gradient of the output", "e s h / r", residual, kBackward);
      break;
    case LayerKind::kPatchEmbedding:
      tensors.Add("patches", "e s p", shape.element * shape.tokens * definition.vocabulary_size,
                  kCheckpoint);
      if (traits.hidden_dropout) {
        tensors.Add("embedding dropout mask", "s h / r",
                    shape.tokens * shape.hidden / shape.sequence, kLayer);
      }
      tensors.Add("gradient of the output", "e s h / r", residual, kBackward);
      break;
    case LayerKind::kHead: {
      const double predictions = 1.0 + definition.further_token_count;
      const double logits = predictions * shape.tokens *
                            PaddedVocabularySize(definition.vocabulary_size, traits,
                                                 strategy.tensor_parallel_degree) /
                            (traits.gathers_logits ? 1.0 : shape.tensor);
      const double input = traits.keeps_gathered_inputs ? residual * shape.sequence : residual;
      tensors.Add("final norm input", "e s h / r", residual, kCheckpoint);
      tensors.Add("output matrix input", "e s h / r (e s h if kept gathered)",
                  definition.frozen ? 0.0 : predictions * input, kLayer);
      if (traits.splits_backward) {
        tensors.Add("gradients of the logits and of the norm's output", "e s V / t + e s h / r",
                    shape.element * logits + residual, kWeightGradients);
      }
      const double bytes_per_logit =
          traits.fp32_logits ? traits.loss_bytes_per_logit : 2.0 * shape.element;
      if (traits.reuses_activations) {
        tensors.Add("norm statistics", "8 s / r", 8.0 * shape.tokens / shape.sequence, kLayer);
        // The gradient of the input takes the place of the logits once these are freed.
        const double loss = shape.element * logits + 12.0 * shape.tokens;
        const bool is_narrow = loss < residual;
        if (!is_narrow) {
          tensors.Add("logits that become their gradients, and the loss", "e s V / t + 12 s", loss,
                      TensorLifetime::kLogits);
        }
        tensors.Add("rows gathered, or the gradient of the input where that is more than logits",
                    "e s h if r > 1; e s h / r", gathered + (is_narrow ? residual : 0.0),
                    kBackward);
        break;
      }
      tensors.Add("logits, their softmax and gradient", "10 s V / t", bytes_per_logit * logits,
                  TensorLifetime::kLogits);
      if (!traits.keeps_gathered_inputs) {
        // Both are of the tokens of all ranks. The gradient of the matrix needs the first one.
        tensors.Add("gathered input of the output matrix, and its gradient", "2 e s h if r > 1",
                    (definition.frozen ? 1.0 : 2.0) * gathered, kBackward);
      }
      break;
    }
  }
  return tensors;
}

ActivationBytes ActivationBytesOf(const LayerDefinition& definition, Precision precision,
                                  const RuntimeTraits& traits, const Strategy& strategy) {
  ActivationBytes bytes = ActivationTensorsOf(definition, precision, traits, strategy).Sum();
  bytes.logits_tensor =
      bytes.logits * (traits.fp32_logits ? std::min(1.0, 4.0 / traits.loss_bytes_per_logit) : 0.5);
  return bytes;
}

}  // namespace parplan
