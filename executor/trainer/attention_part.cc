#include "executor/trainer/attention_part.h"

#include <utility>

#include "base/status_macros.h"

namespace parplan {
namespace {

// Returns [context rank] the tokens it has before sequence parallelism splits them.
std::vector<std::vector<Interval>> PiecesOf(const LayerTools& tools) {
  Strategy shared = tools.strategy();
  shared.sequence_parallel = false;
  const ActivationLayout layout(0, shared, tools.sample_count() * shared.data_parallel_degree,
                                tools.definition().sequence_length);
  std::vector<std::vector<Interval>> pieces;
  for (int rank = 0; rank < shared.context_parallel_degree; ++rank) {
    GridPlace place = tools.place();
    place.context = rank;
    pieces.push_back(layout.TokensOf(RankOfPlace(shared, place)));
  }
  return pieces;
}

// Returns the shape of attention of whole samples with one of `ways` shares of the heads.
AttentionShape ShareOfHeads(AttentionShape shape, int ways) {
  shape.head_count /= ways;
  shape.key_value_head_count /= ways;
  shape.query_stride /= ways;
  shape.key_value_stride /= ways;
  shape.output_stride /= ways;
  shape.query_sample_stride /= ways;
  shape.key_value_sample_stride /= ways;
  shape.output_sample_stride /= ways;
  return shape;
}

}  // namespace

AttentionPart::AttentionPart(const LayerTools& tools)
    : tools_(tools),
      context_(tools.strategy().context_parallel_degree),
      head_count_(tools.definition().attention_head_count / tools.tensor_degree()),
      key_value_head_count_(tools.definition().key_value_head_count / tools.tensor_degree()),
      query_width_(int64_t{head_count_} * tools.definition().head_size),
      key_value_width_(int64_t{key_value_head_count_} * tools.definition().head_size),
      token_count_(tools.definition().sequence_length),
      own_token_count_(token_count_ / context_),
      sample_count_(tools.sample_count()),
      pieces_(PiecesOf(tools)),
      exchange_(tools, own_token_count_ * sample_count_),
      ring_(tools, WholeShape(), pieces_) {}

AttentionShape AttentionPart::WholeShape() const {
  const int64_t row = projection_width();
  return {.sample_count = sample_count_,
          .query_count = token_count_,
          .key_count = token_count_,
          .head_count = head_count_,
          .key_value_head_count = key_value_head_count_,
          .head_size = tools_.definition().head_size,
          .is_causal = tools_.definition().kind == LayerKind::kDecoder,
          .query_stride = sample_count_ * row,
          .key_value_stride = sample_count_ * row,
          .output_stride = sample_count_ * query_width_,
          .query_sample_stride = row,
          .key_value_sample_stride = row,
          .output_sample_stride = query_width_};
}

absl::Status AttentionPart::Check() const {
  AttentionShape shape = WholeShape();
  if (is_ulysses()) shape = ShareOfHeads(shape, context_);
  // The blocks of a ring have fewer tokens, which no kernel minds.
  shape.adds_gradients = is_ring();
  return tools_.kernels().CheckAttention(shape);
}

void AttentionPart::ApplyRotary(const Array& projections, bool inverse) const {
  if (tools_.definition().feed_forward_kind != FeedForwardKind::kSwiglu) return;
  int64_t row = 0;
  for (const Interval& piece : pieces_[tools_.place().context]) {
    // The heads of keys follow those of queries in a row.
    tools_.kernels().Rotate({.token_count = piece.size(),
                             .sample_count = sample_count_,
                             .head_count = head_count_ + key_value_head_count_,
                             .head_size = tools_.definition().head_size,
                             .first_position = piece.begin,
                             .row_stride = projection_width()},
                            inverse, tools_.At(projections.data(), row * projection_width()));
    row += piece.size() * sample_count_;
  }
}

void* AttentionPart::PartOf(const Array& projections, int k, int ways) const {
  const int64_t offsets[] = {0, query_width_, query_width_ + key_value_width_};
  return tools_.At(projections.data(), offsets[k] / ways);
}

void AttentionPart::Attend(const Kept& kept, const Array& outputs) const {
  const int ways = is_ulysses() ? context_ : 1;
  tools_.kernels().Attention(ShareOfHeads(WholeShape(), ways), PartOf(kept.projections, 0, ways),
                             PartOf(kept.projections, 1, ways), PartOf(kept.projections, 2, ways),
                             outputs.data(), kept.logarithms.data());
}

absl::StatusOr<Array> AttentionPart::Forward(Array projections, ArrayUse use, Kept& kept) const {
  if (is_ulysses()) return ForwardUlysses(std::move(projections), use, kept);
  kept.projections = std::move(projections);
  PARPLAN_ASSIGN_OR_RETURN(kept.logarithms, tools_.TakeStatistics(use, KeptSize()));
  PARPLAN_ASSIGN_OR_RETURN(Array outputs,
                           tools_.Take(use, own_token_count_ * sample_count_ * query_width_));
  if (is_ring()) {
    PARPLAN_RETURN_IF_ERROR(ring_.Forward(kept.projections, outputs, kept.logarithms));
  } else {
    Attend(kept, outputs);
  }
  return outputs;
}

absl::Status AttentionPart::Recompute(Kept& kept, const Array& outputs) const {
  PARPLAN_ASSIGN_OR_RETURN(kept.logarithms,
                           tools_.TakeStatistics(ArrayUse::kTransient, KeptSize()));
  if (is_ring()) return ring_.Forward(kept.projections, outputs, kept.logarithms);
  Attend(kept, is_ulysses() ? kept.whole_outputs : outputs);
  return absl::OkStatus();
}

absl::StatusOr<Array> AttentionPart::Backward(Kept kept, Array outputs,
                                              Array output_gradients) const {
  if (is_ulysses()) {
    return BackwardUlysses(std::move(kept), std::move(outputs), std::move(output_gradients));
  }
  PARPLAN_ASSIGN_OR_RETURN(
      Array gradients,
      tools_.Take(ArrayUse::kTransient, own_token_count_ * sample_count_ * projection_width()));
  if (is_ring()) {
    PARPLAN_RETURN_IF_ERROR(
        ring_.Backward(kept.projections, outputs, kept.logarithms, output_gradients, gradients));
    return gradients;
  }
  tools_.kernels().AttentionBackward(WholeShape(), PartOf(kept.projections, 0, 1),
                                     PartOf(kept.projections, 1, 1), PartOf(kept.projections, 2, 1),
                                     outputs.data(), kept.logarithms.data(),
                                     output_gradients.data(), PartOf(gradients, 0, 1),
                                     PartOf(gradients, 1, 1), PartOf(gradients, 2, 1));
  return gradients;
}

absl::StatusOr<Array> AttentionPart::ForwardUlysses(Array projections, ArrayUse use,
                                                    Kept& kept) const {
  const int64_t rows = own_token_count_ * sample_count_;
  const int64_t width = projection_width();
  const int64_t widths[] = {query_width_, key_value_width_, key_value_width_};
  PARPLAN_ASSIGN_OR_RETURN(kept.projections, tools_.Take(use, rows * width));
  PARPLAN_ASSIGN_OR_RETURN(kept.logarithms, tools_.TakeStatistics(use, KeptSize()));
  PARPLAN_ASSIGN_OR_RETURN(kept.whole_outputs, tools_.Take(use, rows * query_width_));
  for (int k = 0; k < 3; ++k) {
    PARPLAN_RETURN_IF_ERROR(exchange_.ToHeads(PartOf(projections, k, 1), width, widths[k],
                                              PartOf(kept.projections, k, context_),
                                              width / context_));
  }
  projections.Reset();
  Attend(kept, kept.whole_outputs);
  PARPLAN_ASSIGN_OR_RETURN(Array outputs, tools_.Take(use, rows * query_width_));
  PARPLAN_RETURN_IF_ERROR(exchange_.ToTokens(kept.whole_outputs.data(), query_width_ / context_,
                                             query_width_, outputs.data(), query_width_));
  return outputs;
}

absl::StatusOr<Array> AttentionPart::BackwardUlysses(Kept kept, Array outputs,
                                                     Array output_gradients) const {
  const int64_t rows = own_token_count_ * sample_count_;
  const int64_t width = projection_width();
  const int64_t widths[] = {query_width_, key_value_width_, key_value_width_};
  outputs.Reset();
  PARPLAN_ASSIGN_OR_RETURN(Array whole_gradients,
                           tools_.Take(ArrayUse::kTransient, rows * query_width_));
  PARPLAN_RETURN_IF_ERROR(exchange_.ToHeads(output_gradients.data(), query_width_, query_width_,
                                            whole_gradients.data(), query_width_ / context_));
  output_gradients.Reset();
  PARPLAN_ASSIGN_OR_RETURN(const Array gradients, tools_.Take(ArrayUse::kTransient, rows * width));
  const auto part = [&](const Array& array, int k) { return PartOf(array, k, context_); };
  tools_.kernels().AttentionBackward(
      ShareOfHeads(WholeShape(), context_), part(kept.projections, 0), part(kept.projections, 1),
      part(kept.projections, 2), kept.whole_outputs.data(), kept.logarithms.data(),
      whole_gradients.data(), part(gradients, 0), part(gradients, 1), part(gradients, 2));
  whole_gradients.Reset();
  kept = {};
  PARPLAN_ASSIGN_OR_RETURN(Array projections, tools_.Take(ArrayUse::kTransient, rows * width));
  for (int k = 0; k < 3; ++k) {
    PARPLAN_RETURN_IF_ERROR(exchange_.ToTokens(part(gradients, k), width / context_, widths[k],
                                               PartOf(projections, k, 1), width));
  }
  return projections;
}

}  // namespace parplan
