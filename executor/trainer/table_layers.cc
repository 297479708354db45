#include "executor/trainer/table_layers.h"

#include <utility>

#include "base/status_macros.h"

namespace parplan {
EmbeddingLayer::EmbeddingLayer(const LayerTools& tools, const ParameterLayout& layout)
    : tools_(tools),
      layout_(layout),
      table_(layout.Find(tensor_names::kTable)),
      hidden_(tools.definition().hidden_size) {
  if (!layout.Has(tensor_names::kPositions)) return;
  for (const Interval& interval : tools.setting().layout.TokensOf(tools.setting().rank)) {
    for (int64_t position = interval.begin; position < interval.end; ++position) {
      positions_.insert(positions_.end(), tools.sample_count(), static_cast<int32_t>(position));
    }
  }
}

absl::StatusOr<Array> EmbeddingLayer::Forward(const void* parameters, const int32_t* tokens) const {
  LayerKernels& kernels = tools_.kernels();
  const int64_t rows = tools_.product_row_count();
  PARPLAN_ASSIGN_OR_RETURN(Array partial, tools_.TakeOutput(rows * hidden_));
  kernels.Embed(tokens, rows, tools_.At(parameters, table_.offset), table_.first_row,
                table_.local_row_count, hidden_, partial.data());
  PARPLAN_ASSIGN_OR_RETURN(Array sum, tools_.SumUp(std::move(partial), hidden_));
  if (!has_positions()) return sum;
  const int64_t size = tools_.row_count() * hidden_;
  const ParameterTensor& table = layout_.Find(tensor_names::kPositions);
  PARPLAN_ASSIGN_OR_RETURN(const Array positions, tools_.Take(ArrayUse::kTransient, size));
  kernels.Embed(positions_.data(), tools_.row_count(), tools_.At(parameters, table.offset),
                /*first_token=*/0, table.row_count, hidden_, positions.data());
  kernels.Add(positions.data(), sum.data(), size);
  return sum;
}

absl::Status EmbeddingLayer::Backward(const int32_t* tokens, Array output_gradient,
                                      void* gradients) const {
  LayerKernels& kernels = tools_.kernels();
  Array gathered;
  PARPLAN_ASSIGN_OR_RETURN(const void* const dy,
                           tools_.Gather(output_gradient.data(), hidden_, gathered));
  kernels.EmbedBackward(tokens, tools_.product_row_count(), dy, table_.first_row,
                        table_.local_row_count, hidden_,
                        tools_.StatisticAt(gradients, table_.offset));
  if (!has_positions()) return absl::OkStatus();
  const ParameterTensor& table = layout_.Find(tensor_names::kPositions);
  kernels.EmbedBackward(positions_.data(), tools_.row_count(), output_gradient.data(),
                        /*first_token=*/0, table.row_count, hidden_,
                        tools_.StatisticAt(gradients, table.offset));
  return absl::OkStatus();
}

HeadLayer::HeadLayer(const LayerTools& tools, const ParameterLayout& layout,
                     const ParameterTensor& table)
    : tools_(tools),
      layout_(layout),
      table_(table),
      norm_(layout.Has(tensor_names::kNormBias) ? NormKind::kLayerNorm : NormKind::kRmsNorm),
      hidden_(tools.definition().hidden_size) {}

absl::Status HeadLayer::ReserveLogits() const {
  return tools_.Take(ArrayUse::kLogits, tools_.product_row_count() * table_.local_row_count)
      .status();
}

absl::Status HeadLayer::Forward(const void* parameters, Array input, Kept& kept) const {
  const int64_t rows = tools_.row_count();
  kept.input = std::move(input);
  PARPLAN_ASSIGN_OR_RETURN(kept.normal, tools_.Take(ArrayUse::kActivations, rows * hidden_));
  PARPLAN_ASSIGN_OR_RETURN(kept.moments, tools_.TakeStatistics(ArrayUse::kActivations, 2 * rows));
  tools_.kernels().Norm(norm_, kept.input.data(),
                        tools_.At(parameters, layout_.Find(tensor_names::kNormGain).offset),
                        layout_.Has(tensor_names::kNormBias)
                            ? tools_.At(parameters, layout_.Find(tensor_names::kNormBias).offset)
                            : nullptr,
                        kept.normal.data(), kept.moments.data(), rows, hidden_);
  return absl::OkStatus();
}

absl::Status HeadLayer::LogitsToGradients(const Array& logits, const int32_t* targets,
                                          double factor, double* loss) const {
  LayerKernels& kernels = tools_.kernels();
  const int64_t rows = tools_.product_row_count();
  const int64_t columns = table_.local_row_count;
  Communicator* const tensor = tools_.setting().tensor;
  PARPLAN_ASSIGN_OR_RETURN(const Array largest, tools_.TakeStatistics(ArrayUse::kLogits, rows));
  PARPLAN_ASSIGN_OR_RETURN(const Array sums, tools_.TakeStatistics(ArrayUse::kLogits, 2 * rows));
  kernels.LargestLogits(logits.data(), rows, columns, largest.data());
  if (tensor != nullptr) {
    PARPLAN_RETURN_IF_ERROR(
        tensor->AllReduce(kernels.statistics_type(), largest.data(), rows, Reduction::kMax));
  }
  kernels.SumLogits(logits.data(), targets, largest.data(), rows, columns, table_.first_row,
                    sums.data());
  if (tensor != nullptr) {
    PARPLAN_RETURN_IF_ERROR(tensor->AllReduce(kernels.statistics_type(), sums.data(), 2 * rows));
  }
  kernels.LogitGradients(logits.data(), targets, largest.data(), sums.data(), factor, rows, columns,
                         table_.first_row);
  if (loss != nullptr) kernels.AddLosses(sums.data(), factor, rows, loss);
  return absl::OkStatus();
}

absl::StatusOr<Array> HeadLayer::Backward(const void* parameters, const void* table, Kept kept,
                                          const int32_t* targets, double factor, void* gradients,
                                          void* table_gradient, double* loss) const {
  LayerKernels& kernels = tools_.kernels();
  const int64_t rows = tools_.row_count();
  const int64_t product_rows = tools_.product_row_count();
  const int64_t columns = table_.local_row_count;
  PARPLAN_ASSIGN_OR_RETURN(Array logits, tools_.Take(ArrayUse::kLogits, product_rows * columns));
  Array gathered;
  PARPLAN_ASSIGN_OR_RETURN(const void* const normal,
                           tools_.Gather(kept.normal.data(), hidden_, gathered));
  kernels.Multiply({.transposes_b = true,
                    .m = product_rows,
                    .n = columns,
                    .k = hidden_,
                    .a = normal,
                    .b = table,
                    .c = logits.data()});
  PARPLAN_RETURN_IF_ERROR(LogitsToGradients(logits, targets, factor, loss));
  kernels.Multiply({.transposes_a = true,
                    .m = columns,
                    .n = hidden_,
                    .k = product_rows,
                    .a = logits.data(),
                    .b = normal,
                    .c = table_gradient,
                    .adds = true,
                    .widens = true});
  // The norm's output is not needed after this; its memory takes the gradient.
  Array partial = gathered.is_null() ? std::move(kept.normal) : std::move(gathered);
  kept.normal.Reset();
  kernels.Multiply({.m = product_rows,
                    .n = hidden_,
                    .k = columns,
                    .a = logits.data(),
                    .b = table,
                    .c = partial.data()});
  logits.Reset();
  PARPLAN_ASSIGN_OR_RETURN(const Array d_normal, tools_.SumUp(std::move(partial), hidden_));
  PARPLAN_ASSIGN_OR_RETURN(Array dx, tools_.Take(ArrayUse::kTransient, rows * hidden_));
  kernels.Zero(dx.data(), rows * hidden_);
  kernels.NormBackward(
      norm_, d_normal.data(), kept.input.data(),
      tools_.At(parameters, layout_.Find(tensor_names::kNormGain).offset), kept.moments.data(),
      dx.data(), tools_.StatisticAt(gradients, layout_.Find(tensor_names::kNormGain).offset),
      layout_.Has(tensor_names::kNormBias)
          ? tools_.StatisticAt(gradients, layout_.Find(tensor_names::kNormBias).offset)
          : nullptr,
      rows, hidden_);
  return dx;
}

}  // namespace parplan
