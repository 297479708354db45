#include "executor/trainer/transformer_layer.h"

#include <utility>

#include "base/status_macros.h"

namespace parplan {
namespace {

bool IsGpt(const LayerDefinition& layer) {
  return layer.feed_forward_kind == FeedForwardKind::kGelu;
}

}  // namespace

TransformerLayer::TransformerLayer(const LayerTools& tools, const ParameterLayout& layout)
    : tools_(tools),
      layout_(layout),
      attention_(tools),
      norm_(layout.Has(tensor_names::kAttentionNormBias) ? NormKind::kLayerNorm
                                                         : NormKind::kRmsNorm),
      hidden_(tools.definition().hidden_size),
      inner_(tools.definition().feed_forward_size / tools.tensor_degree()),
      inner_product_(IsGpt(tools.definition()) ? inner_ : 2 * inner_) {}

const void* TransformerLayer::In(const void* parameters, const char* name) const {
  return tools_.At(parameters, layout_.Find(name).offset);
}
void* TransformerLayer::Out(void* gradients, const char* name) const {
  return tools_.StatisticAt(gradients, layout_.Find(name).offset);
}

void TransformerLayer::Norm(const void* parameters, const char* gain, const char* bias,
                            const void* x, void* y, void* moments) const {
  tools_.kernels().Norm(norm_, x, In(parameters, gain), BiasIn(parameters, bias), y, moments,
                        tools_.row_count(), hidden_);
}

void TransformerLayer::NormBackward(const void* parameters, const char* gain, const char* bias,
                                    const void* dy, const void* x, const void* moments, void* dx,
                                    void* gradients) const {
  tools_.kernels().NormBackward(
      norm_, dy, x, In(parameters, gain), moments, dx, Out(gradients, gain),
      layout_.Has(bias) ? Out(gradients, bias) : nullptr, tools_.row_count(), hidden_);
}

const void* TransformerLayer::BiasIn(const void* parameters, const char* name) const {
  return layout_.Has(name) ? In(parameters, name) : nullptr;
}

absl::StatusOr<Array> TransformerLayer::Forward(const void* parameters, Array input, ArrayUse use,
                                                Kept& kept) const {
  kept.input = std::move(input);
  PARPLAN_ASSIGN_OR_RETURN(kept.middle, Attend(parameters, use, kept));
  kept.middle.set_use(use);
  return FeedForward(parameters, use, kept);
}

absl::StatusOr<Array> TransformerLayer::Attend(const void* parameters, ArrayUse use,
                                               Kept& kept) const {
  LayerKernels& kernels = tools_.kernels();
  const int64_t rows = tools_.row_count();
  const int64_t product_rows = tools_.product_row_count();
  const int64_t width = attention_.projection_width();
  PARPLAN_ASSIGN_OR_RETURN(kept.first_normal, tools_.Take(use, rows * hidden_));
  PARPLAN_ASSIGN_OR_RETURN(kept.first_moments, tools_.TakeStatistics(use, 2 * rows));
  PARPLAN_ASSIGN_OR_RETURN(Array projections, tools_.Take(use, product_rows * width));
  Norm(parameters, tensor_names::kAttentionNormGain, tensor_names::kAttentionNormBias,
       kept.input.data(), kept.first_normal.data(), kept.first_moments.data());
  Array gathered;
  PARPLAN_ASSIGN_OR_RETURN(const void* const normal,
                           tools_.Gather(kept.first_normal.data(), hidden_, gathered));
  kernels.Multiply({.transposes_b = true,
                    .m = product_rows,
                    .n = width,
                    .k = hidden_,
                    .a = normal,
                    .b = In(parameters, tensor_names::kQuery),
                    .c = projections.data()});
  gathered.Reset();
  if (layout_.Has(tensor_names::kQueryBias)) {
    // Queries and values have biases, keys have none.
    const int64_t query = attention_.output_width();
    const int64_t value = (width - query) / 2;
    kernels.AddBiasToColumns(In(parameters, tensor_names::kQueryBias), projections.data(),
                             product_rows, width,
                             /*first_column=*/0, query);
    kernels.AddBiasToColumns(In(parameters, tensor_names::kValueBias), projections.data(),
                             product_rows, width, query + value, value);
  }
  attention_.ApplyRotary(projections, /*inverse=*/false);
  PARPLAN_ASSIGN_OR_RETURN(kept.attended,
                           attention_.Forward(std::move(projections), use, kept.attention));
  PARPLAN_ASSIGN_OR_RETURN(Array partial, tools_.TakeOutput(product_rows * hidden_));
  kernels.Multiply({.transposes_b = true,
                    .m = product_rows,
                    .n = hidden_,
                    .k = attention_.output_width(),
                    .a = kept.attended.data(),
                    .b = In(parameters, tensor_names::kProjection),
                    .c = partial.data()});
  return tools_.SumUp(std::move(partial), hidden_);
}

absl::StatusOr<Array> TransformerLayer::FeedForward(const void* parameters, ArrayUse use,
                                                    Kept& kept) const {
  LayerKernels& kernels = tools_.kernels();
  const int64_t rows = tools_.row_count();
  const int64_t product_rows = tools_.product_row_count();
  const bool is_gpt = IsGpt(tools_.definition());
  PARPLAN_ASSIGN_OR_RETURN(kept.second_normal, tools_.Take(use, rows * hidden_));
  PARPLAN_ASSIGN_OR_RETURN(kept.second_moments, tools_.TakeStatistics(use, 2 * rows));
  PARPLAN_ASSIGN_OR_RETURN(kept.inner, tools_.Take(use, product_rows * inner_product_));
  PARPLAN_ASSIGN_OR_RETURN(kept.activated, tools_.Take(use, product_rows * inner_));
  kernels.AddResidualAndNorm({.kind = norm_,
                              .bias = BiasIn(parameters, tensor_names::kProjectionBias),
                              .residual = kept.input.data(),
                              .sum = kept.middle.data(),
                              .gain = In(parameters, tensor_names::kFeedForwardNormGain),
                              .norm_bias = BiasIn(parameters, tensor_names::kFeedForwardNormBias),
                              .normal = kept.second_normal.data(),
                              .kept = kept.second_moments.data(),
                              .row_count = rows,
                              .row_size = hidden_});
  Array gathered;
  PARPLAN_ASSIGN_OR_RETURN(const void* const normal,
                           tools_.Gather(kept.second_normal.data(), hidden_, gathered));
  kernels.Multiply({.transposes_b = true,
                    .m = product_rows,
                    .n = inner_product_,
                    .k = hidden_,
                    .a = normal,
                    .b = In(parameters, is_gpt ? tensor_names::kFirst : tensor_names::kGate),
                    .c = kept.inner.data()});
  gathered.Reset();
  if (is_gpt) {
    if (layout_.Has(tensor_names::kFirstBias)) {
      kernels.AddBiasAndGelu(In(parameters, tensor_names::kFirstBias), kept.inner.data(),
                             kept.activated.data(), product_rows, inner_);
    } else {
      kernels.Gelu(kept.inner.data(), kept.activated.data(), product_rows * inner_);
    }
  } else {
    kernels.Swiglu(kept.inner.data(), kept.activated.data(), product_rows, inner_);
  }
  PARPLAN_ASSIGN_OR_RETURN(Array partial, tools_.TakeOutput(product_rows * hidden_));
  kernels.Multiply({.transposes_b = true,
                    .m = product_rows,
                    .n = hidden_,
                    .k = inner_,
                    .a = kept.activated.data(),
                    .b = In(parameters, tensor_names::kSecond),
                    .c = partial.data()});
  PARPLAN_ASSIGN_OR_RETURN(Array sum, tools_.SumUp(std::move(partial), hidden_));
  kernels.AddResidual(BiasIn(parameters, tensor_names::kSecondBias), kept.middle.data(), sum.data(),
                      rows, hidden_);
  return sum;
}

absl::StatusOr<Array> TransformerLayer::Backward(const void* parameters, Kept kept,
                                                 Array output_gradient, void* gradients) const {
  PARPLAN_RETURN_IF_ERROR(FeedForwardBackward(parameters, kept, output_gradient, gradients));
  PARPLAN_RETURN_IF_ERROR(AttendBackward(parameters, kept, output_gradient, gradients));
  return output_gradient;
}

absl::Status TransformerLayer::ProductBackward(const void* parameters, const char* gain,
                                               const char* bias, const char* matrix, int64_t width,
                                               Array d_product, Array normal, const Array& x,
                                               const Array& moments, Array& dx,
                                               void* gradients) const {
  LayerKernels& kernels = tools_.kernels();
  const int64_t product_rows = tools_.product_row_count();
  Array gathered;
  PARPLAN_ASSIGN_OR_RETURN(const void* const whole,
                           tools_.Gather(normal.data(), hidden_, gathered));
  kernels.Multiply({.transposes_a = true,
                    .m = width,
                    .n = hidden_,
                    .k = product_rows,
                    .a = d_product.data(),
                    .b = whole,
                    .c = Out(gradients, matrix),
                    .adds = true,
                    .widens = true});
  // The norm's output is not needed after this; its memory takes the gradient.
  Array partial = std::move(gathered.is_null() ? normal : gathered);
  normal.Reset();
  kernels.Multiply({.m = product_rows,
                    .n = hidden_,
                    .k = width,
                    .a = d_product.data(),
                    .b = In(parameters, matrix),
                    .c = partial.data()});
  d_product.Reset();
  PARPLAN_ASSIGN_OR_RETURN(const Array d_normal, tools_.SumUp(std::move(partial), hidden_));
  NormBackward(parameters, gain, bias, d_normal.data(), x.data(), moments.data(), dx.data(),
               gradients);
  return absl::OkStatus();
}

absl::Status TransformerLayer::FeedForwardBackward(const void* parameters, Kept& kept, Array& dx,
                                                   void* gradients) const {
  LayerKernels& kernels = tools_.kernels();
  const int64_t rows = tools_.row_count();
  const int64_t product_rows = tools_.product_row_count();
  const bool is_gpt = IsGpt(tools_.definition());
  if (layout_.Has(tensor_names::kSecondBias)) {
    kernels.AddRows(dx.data(), Out(gradients, tensor_names::kSecondBias), rows, hidden_);
  }
  Array all_dy;
  PARPLAN_ASSIGN_OR_RETURN(const void* const dy, tools_.Gather(dx.data(), hidden_, all_dy));
  kernels.Multiply({.transposes_a = true,
                    .m = hidden_,
                    .n = inner_,
                    .k = product_rows,
                    .a = dy,
                    .b = kept.activated.data(),
                    .c = Out(gradients, tensor_names::kSecond),
                    .adds = true,
                    .widens = true});
  // The gradient takes the memory of the activated values.
  kernels.Multiply({.m = product_rows,
                    .n = inner_,
                    .k = hidden_,
                    .a = dy,
                    .b = In(parameters, tensor_names::kSecond),
                    .c = kept.activated.data()});
  all_dy.Reset();
  Array d_inner;
  if (is_gpt) {
    kernels.GeluBackward(kept.inner.data(), kept.activated.data(), kept.activated.data(),
                         product_rows * inner_);
    d_inner = std::move(kept.activated);
    kept.inner.Reset();
    if (layout_.Has(tensor_names::kFirstBias)) {
      kernels.AddRows(d_inner.data(), Out(gradients, tensor_names::kFirstBias), product_rows,
                      inner_);
    }
  } else {
    kernels.SwigluBackward(kept.inner.data(), kept.activated.data(), kept.inner.data(),
                           product_rows, inner_);
    d_inner = std::move(kept.inner);
    kept.activated.Reset();
  }
  PARPLAN_RETURN_IF_ERROR(ProductBackward(
      parameters, tensor_names::kFeedForwardNormGain, tensor_names::kFeedForwardNormBias,
      is_gpt ? tensor_names::kFirst : tensor_names::kGate, inner_product_, std::move(d_inner),
      std::move(kept.second_normal), kept.middle, kept.second_moments, dx, gradients));
  kept.second_moments.Reset();
  kept.middle.Reset();
  return absl::OkStatus();
}

absl::Status TransformerLayer::AttendBackward(const void* parameters, Kept& kept, Array& dx,
                                              void* gradients) const {
  LayerKernels& kernels = tools_.kernels();
  const int64_t rows = tools_.row_count();
  const int64_t product_rows = tools_.product_row_count();
  const int64_t width = attention_.projection_width();
  const int64_t query = attention_.output_width();
  if (layout_.Has(tensor_names::kProjectionBias)) {
    kernels.AddRows(dx.data(), Out(gradients, tensor_names::kProjectionBias), rows, hidden_);
  }
  Array all_dy;
  PARPLAN_ASSIGN_OR_RETURN(const void* const dy, tools_.Gather(dx.data(), hidden_, all_dy));
  kernels.Multiply({.transposes_a = true,
                    .m = hidden_,
                    .n = query,
                    .k = product_rows,
                    .a = dy,
                    .b = kept.attended.data(),
                    .c = Out(gradients, tensor_names::kProjection),
                    .adds = true,
                    .widens = true});
  PARPLAN_ASSIGN_OR_RETURN(Array d_attended,
                           tools_.Take(ArrayUse::kTransient, product_rows * query));
  kernels.Multiply({.m = product_rows,
                    .n = query,
                    .k = hidden_,
                    .a = dy,
                    .b = In(parameters, tensor_names::kProjection),
                    .c = d_attended.data()});
  all_dy.Reset();
  PARPLAN_ASSIGN_OR_RETURN(Array d_projections,
                           attention_.Backward(std::move(kept.attention), std::move(kept.attended),
                                               std::move(d_attended)));
  attention_.ApplyRotary(d_projections, /*inverse=*/true);
  if (layout_.Has(tensor_names::kQueryBias)) {
    const int64_t value = (width - query) / 2;
    kernels.AddColumnsOfRows(d_projections.data(), product_rows, width, /*first_column=*/0, query,
                             Out(gradients, tensor_names::kQueryBias));
    kernels.AddColumnsOfRows(d_projections.data(), product_rows, width, query + value, value,
                             Out(gradients, tensor_names::kValueBias));
  }
  return ProductBackward(parameters, tensor_names::kAttentionNormGain,
                         tensor_names::kAttentionNormBias, tensor_names::kQuery, width,
                         std::move(d_projections), std::move(kept.first_normal), kept.input,
                         kept.first_moments, dx, gradients);
}

}  // namespace parplan
