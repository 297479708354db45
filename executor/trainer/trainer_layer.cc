#include "executor/trainer/trainer_layer.h"

#include <utility>
#include <vector>

#include "base/status_macros.h"

namespace parplan {
namespace {

ParameterLayout LayoutOf(const TrainerLayer::Setting& setting) {
  LayerDefinition definition = *setting.tools.definition;
  // A copied table is a parameter of the head; summed gradients keep it equal to the embedding's.
  if (setting.copies_embedding) {
    definition.tied_embedding = false;
    definition.parameter_count += int64_t{definition.vocabulary_size} * definition.hidden_size;
  }
  const int rank = setting.program.place.tensor;
  return LayoutOfParameters(definition, setting.program.strategy.tensor_parallel_degree, rank);
}

}  // namespace

TrainerLayer::TrainerLayer(const Setting& setting)
    : setting_(setting), tools_(setting.tools), layout_(LayoutOf(setting)) {
  switch (tools_.definition().kind) {
    case LayerKind::kEmbedding:
      embedding_.emplace(tools_, layout_);
      break;
    case LayerKind::kHead:
      head_.emplace(tools_, layout_, Table());
      break;
    default:
      transformer_.emplace(tools_, layout_);
  }
}

const ParameterTensor& TrainerLayer::Table() const {
  return setting_.tied == nullptr ? layout_.Find(tensor_names::kTable)
                                  : setting_.tied->layout_.Find(tensor_names::kTable);
}

absl::StatusOr<std::unique_ptr<TrainerLayer>> TrainerLayer::Create(const Setting& setting) {
  std::unique_ptr<TrainerLayer> layer(new TrainerLayer(setting));
  if (layer->transformer_.has_value()) PARPLAN_RETURN_IF_ERROR(layer->transformer_->Check());
  // A copy of the embedding's table begins with the same values.
  const int values_of = setting.copies_embedding ? 0 : setting.program.layer_index;
  PARPLAN_ASSIGN_OR_RETURN(layer->state_,
                           LayerState::Create(layer->tools_, layer->layout_, setting.gradient_group,
                                              values_of, setting.seed, setting.optimizer));
  if (layer->head_.has_value()) PARPLAN_RETURN_IF_ERROR(layer->head_->ReserveLogits());
  return layer;
}

std::vector<int32_t> TrainerLayer::Tokens(int64_t step, int64_t micro_batch, int shift) const {
  // Products have the rows of all tensor-parallel ranks, as without sequence parallelism.
  Strategy strategy = setting_.program.strategy;
  strategy.sequence_parallel = false;
  const int rank = setting_.tools.rank;
  const ActivationLayout layout(setting_.program.layout.first_rank(), strategy,
                                setting_.micro_batch_size, tools_.definition().sequence_length);
  const Interval samples = layout.SamplesOf(rank);
  std::vector<int32_t> tokens;
  for (const Interval& interval : layout.TokensOf(rank)) {
    for (int64_t position = interval.begin; position < interval.end; ++position) {
      for (int64_t sample = samples.begin; sample < samples.end; ++sample) {
        tokens.push_back(setting_.tokens->TokenAt(
            step, micro_batch * setting_.micro_batch_size + sample, position + shift));
      }
    }
  }
  return tokens;
}

absl::StatusOr<Array> TrainerLayer::ForwardTransformer(const void* parameters, Array input,
                                                       Kept& kept) const {
  if (recompute_level() != RecomputeLevel::kFull) {
    input.set_use(ArrayUse::kActivations);
    PARPLAN_ASSIGN_OR_RETURN(
        Array output, transformer_->Forward(parameters, std::move(input), ArrayUse::kActivations,
                                            kept.transformer));
    if (recompute_level() == RecomputeLevel::kSelective) {
      TransformerLayer::DropAttention(kept.transformer);
    }
    return output;
  }
  input.set_use(ArrayUse::kCheckpoints);
  TransformerLayer::Kept dropped;
  PARPLAN_ASSIGN_OR_RETURN(Array output, transformer_->Forward(parameters, std::move(input),
                                                               ArrayUse::kTransient, dropped));
  kept.checkpoint = std::move(dropped.input);
  return output;
}

absl::StatusOr<Array> TrainerLayer::BackwardTransformer(Kept kept, Array output_gradient) {
  PARPLAN_ASSIGN_OR_RETURN(const void* const parameters, state_->Parameters());
  if (recompute_level() != RecomputeLevel::kNone) Enter(TrainerPhase::kRecompute);
  if (recompute_level() == RecomputeLevel::kFull) {
    PARPLAN_RETURN_IF_ERROR(transformer_
                                ->Forward(parameters, std::move(kept.checkpoint),
                                          ArrayUse::kTransient, kept.transformer)
                                .status());
  } else if (recompute_level() == RecomputeLevel::kSelective) {
    PARPLAN_RETURN_IF_ERROR(transformer_->RecomputeAttention(kept.transformer));
  }
  Enter(TrainerPhase::kBackward);
  PARPLAN_ASSIGN_OR_RETURN(void* const gradients, state_->Gradients());
  return transformer_->Backward(parameters, std::move(kept.transformer), std::move(output_gradient),
                                gradients);
}

absl::StatusOr<Array> TrainerLayer::BackwardHead(int64_t step, int64_t micro_batch, Kept kept,
                                                 double* loss) {
  PARPLAN_ASSIGN_OR_RETURN(const void* const parameters, state_->Parameters());
  PARPLAN_ASSIGN_OR_RETURN(void* const gradients, state_->Gradients());
  LayerState& table_state = setting_.tied == nullptr ? *state_ : *setting_.tied->state_;
  PARPLAN_ASSIGN_OR_RETURN(const void* const table, table_state.Parameters());
  PARPLAN_ASSIGN_OR_RETURN(void* const table_gradients, table_state.Gradients());
  const std::vector<int32_t> targets = Tokens(step, micro_batch, /*shift=*/1);
  // Tensor-parallel ranks have equal losses; one of them counts.
  double* const counted = tools_.place().tensor == 0 ? loss : nullptr;
  PARPLAN_ASSIGN_OR_RETURN(
      Array gradient,
      head_->Backward(parameters, tools_.At(table, Table().offset), std::move(kept.head),
                      targets.data(), 1.0 / static_cast<double>(setting_.global_token_count),
                      gradients, tools_.StatisticAt(table_gradients, Table().offset), counted));
  if (setting_.tied != nullptr) {
    table_state.Release();
    PARPLAN_RETURN_IF_ERROR(table_state.EndBackward());
    // The layer before the head is not the embedding, whose scattering would be held until then.
    PARPLAN_RETURN_IF_ERROR(table_state.FinishScatter());
  }
  return gradient;
}

absl::StatusOr<Array> TrainerLayer::Forward(int64_t step, int64_t micro_batch, Array input) {
  Kept& kept = kept_[micro_batch];
  PARPLAN_ASSIGN_OR_RETURN(const void* const parameters, state_->Parameters());
  Array output;
  if (embedding_.has_value()) {
    kept.tokens = Tokens(step, micro_batch, /*shift=*/0);
    PARPLAN_ASSIGN_OR_RETURN(output, embedding_->Forward(parameters, kept.tokens.data()));
  } else if (head_.has_value()) {
    input.set_use(ArrayUse::kActivations);
    PARPLAN_RETURN_IF_ERROR(head_->Forward(parameters, std::move(input), kept.head));
  } else {
    PARPLAN_ASSIGN_OR_RETURN(output, ForwardTransformer(parameters, std::move(input), kept));
  }
  state_->Release();
  return output;
}

absl::StatusOr<Array> TrainerLayer::Backward(int64_t step, int64_t micro_batch,
                                             Array output_gradient, double* loss) {
  Kept kept = std::move(kept_.extract(micro_batch).mapped());
  Array gradient;
  if (embedding_.has_value()) {
    // The backward pass of an embedding needs no parameters.
    PARPLAN_ASSIGN_OR_RETURN(void* const gradients, state_->Gradients());
    PARPLAN_RETURN_IF_ERROR(
        embedding_->Backward(kept.tokens.data(), std::move(output_gradient), gradients));
  } else if (head_.has_value()) {
    PARPLAN_ASSIGN_OR_RETURN(gradient, BackwardHead(step, micro_batch, std::move(kept), loss));
  } else {
    PARPLAN_ASSIGN_OR_RETURN(gradient,
                             BackwardTransformer(std::move(kept), std::move(output_gradient)));
  }
  state_->Release();
  PARPLAN_RETURN_IF_ERROR(state_->EndBackward());
  return gradient;
}

}  // namespace parplan
