#include "planner/cost/structure_tensors.h"

#include <optional>

#include "planner/model/layer_matrices.h"
#include "planner/model/layer_precision.h"
#include "planner/model/strategy_fields.h"

namespace parplan {

static_assert(kStrategyFieldCount == 13, "say whether the new field divides tensors");

using enum TensorLifetime;

TensorSizes TensorSizesOf(const LayerDefinition& definition, Precision precision,
                          const Strategy& strategy) {
  TensorSizes shape;
  shape.element = static_cast<double>(BytesPerElement(precision));
  const std::optional<Quantisation> quantisation = QuantisationOf(definition, precision);
  // The quantised copy for the gradient of the weights is kept, the other is not.
  shape.input = quantisation.has_value() ? quantisation->operand_bytes : shape.element;
  shape.all_tokens = definition.sequence_length;
  shape.tokens = shape.all_tokens / strategy.context_parallel_degree;
  shape.expert_tokens = shape.tokens;
  if (strategy.expert_tensor_parallel_degree > 0) {
    shape.expert_tokens *= static_cast<double>(strategy.expert_tensor_parallel_degree) /
                           strategy.tensor_parallel_degree;
  }
  shape.hidden = definition.hidden_size;
  if (HasAttention(definition.kind)) {
    const AttentionWidths widths = AttentionWidthsOf(definition);
    shape.query = static_cast<double>(widths.query);
    shape.key = static_cast<double>(widths.key);
    shape.value = static_cast<double>(widths.value);
    shape.output = static_cast<double>(widths.output);
    shape.key_head = static_cast<double>(widths.key_head);
    shape.value_head = static_cast<double>(widths.value_head);
  }
  shape.heads = definition.attention_head_count;
  shape.tensor = strategy.tensor_parallel_degree;
  shape.sequence = strategy.sequence_parallel ? strategy.tensor_parallel_degree : 1;
  const bool shares_tokens = strategy.context_parallel_degree > 1;
  shape.is_ring = shares_tokens && strategy.context_kind == ContextKind::kRing;
  shape.is_ulysses = strategy.head_exchange_degree() > 1;
  if (strategy.context_kind == ContextKind::kAllGather) {
    shape.gathered = strategy.context_parallel_degree;
  }
  return shape;
}

void AddCompressedVectors(const LatentAttention& latent, const TensorSizes& shape,
                          TensorLifetime lifetime, ActivationTensors& tensors) {
  const double row = shape.element * shape.tokens / shape.sequence;
  const double input = shape.input * shape.tokens / shape.sequence;
  // The map to queries, keys and values keeps the vectors before their norms.
  constexpr RecomputeModule kUp = RecomputeModule::kLatentUpProjection;
  const auto share_after = [](double after, double all) { return all > 0.0 ? after / all : 0.0; };
  const double queries = (row + input) * latent.query_rank;
  tensors.Add("compressed queries, before and after their norm", "(e + i) s c / r", queries,
              lifetime, kUp, share_after(input * latent.query_rank, queries));
  const double compressed = (row + input) * latent.key_value_rank + row * latent.rotary_head_size;
  tensors.Add("compressed keys and values, before and after their norm", "((e + i) c + e p) s / r",
              compressed, lifetime, kUp, share_after(input * latent.key_value_rank, compressed));
}

void AddStateSpace(const StateSpace& space, const TensorSizes& shape, ActivationTensors& tensors) {
  const double residual = shape.element * shape.tokens * shape.hidden / shape.sequence;
  const double row = shape.element * shape.tokens / shape.tensor;
  const double inner = row * space.inner_size;
  tensors.Add("state-space norm input", "e s h / r", residual, kCheckpoint);
  tensors.Add("state-space projection input", "i s h / r", residual / shape.element * shape.input,
              kLayer);
  tensors.Add("state-space projection output", "e s i / t", row * ProjectedWidth(space), kLayer);
  if (space.kind == StateSpaceKind::kSelective) {
    tensors.Add("convolution output", "e s d / t", inner, kLayer);
    tensors.Add(
        "time steps before their projection, and both projections of the state", "e s (u + 2 n)",
        shape.element * shape.tokens * (space.time_step_rank + 2.0 * space.state_size), kLayer);
    tensors.Add("time steps", "e s d / t", inner, kLayer);
  } else if (space.kind == StateSpaceKind::kGatedDelta) {
    tensors.Add("convolution output", "e s (d + 2 g n) / t",
                row * (space.inner_size + 2.0 * space.group_count * space.state_size), kLayer);
  }
  tensors.Add("scan output", "e s d / t", inner, kLayer);
  tensors.Add("state-space output projection input", "i s d / t",
              inner / shape.element * shape.input, kLayer);
}

void AddPrediction(const TensorSizes& shape, ActivationTensors& tensors) {
  const double residual = shape.element * shape.tokens * shape.hidden / shape.sequence;
  tensors.Add("hidden state and embedding before their norms", "2 e s h / r", 2.0 * residual,
              kLayer);
  tensors.Add("prediction projection input", "2 i s h / r",
              2.0 * residual / shape.element * shape.input, kLayer);
  tensors.Add("prediction norm input", "e s h / r", residual, kLayer);
}

}  // namespace parplan
