#include "clients/executor/trainer/attention_part.h"

#include <utility>

#include "planner/base/status_macros.h"

namespace parplan {

AttentionPart::AttentionPart(const LayerTools& tools)
    : tools_(tools),
      context_(tools.strategy().context_parallel_degree),
      head_count_(tools.definition().attention_head_count / tools.tensor_degree()),
      key_value_head_count_(tools.definition().key_value_head_count / tools.tensor_degree()),
      query_width_(int64_t{head_count_} * tools.definition().head_size),
      key_value_width_(int64_t{key_value_head_count_} * tools.definition().head_size),
      token_count_(tools.definition().sequence_length),
      own_token_count_(token_count_ / context_),
      sample_count_(tools.sample_count()) {
  // As ranks that do not split tokens by tensor parallelism would hold them.
  Strategy shared = tools.strategy();
  shared.sequence_parallel = false;
  const ActivationLayout layout(0, shared, sample_count_ * shared.data_parallel_degree,
                                token_count_);
  for (int rank = 0; rank < context_; ++rank) {
    GridPlace place = tools.place();
    place.context = rank;
    pieces_.push_back(layout.TokensOf(RankOfPlace(shared, place)));
  }
  own_pieces_ = pieces_[tools.place().context];
}

bool AttentionPart::is_causal() const { return tools_.definition().kind == LayerKind::kDecoder; }

int64_t AttentionPart::KeptSize() const {
  // A logarithm for each query and head that this rank attends with.
  return sample_count_ * own_token_count_ * head_count_;
}

AttentionShape AttentionPart::WholeShape() const {
  const int64_t row = projection_width();
  return {.sample_count = sample_count_,
          .query_count = token_count_,
          .key_count = token_count_,
          .head_count = head_count_,
          .key_value_head_count = key_value_head_count_,
          .head_size = tools_.definition().head_size,
          .is_causal = is_causal(),
          .query_stride = sample_count_ * row,
          .key_value_stride = sample_count_ * row,
          .output_stride = sample_count_ * query_width_,
          .query_sample_stride = row,
          .key_value_sample_stride = row,
          .output_sample_stride = query_width_};
}

AttentionShape AttentionPart::PieceShape(const Interval& piece) const {
  AttentionShape shape = WholeShape();
  shape.query_count = piece.size();
  shape.first_query = piece.begin;
  // Gathered keys and values lie in rows of their own.
  shape.key_value_stride = sample_count_ * 2 * key_value_width_;
  shape.key_value_sample_stride = 2 * key_value_width_;
  return shape;
}

absl::Status AttentionPart::Forward(const void* projections, void* outputs, void* kept) const {
  if (context_ > 1) {
    return tools_.strategy().context_kind == ContextKind::kUlysses
               ? ForwardUlysses(projections, outputs, kept)
               : ForwardGathered(projections, outputs, kept);
  }
  tools_.kernels().Attention(WholeShape(), projections, tools_.At(projections, query_width_),
                             tools_.At(projections, query_width_ + key_value_width_), outputs,
                             kept);
  return absl::OkStatus();
}

absl::Status AttentionPart::Backward(const void* projections, const void* outputs, const void* kept,
                                     const void* output_gradients,
                                     void* projection_gradients) const {
  if (context_ > 1) {
    return tools_.strategy().context_kind == ContextKind::kUlysses
               ? BackwardUlysses(projections, outputs, kept, output_gradients, projection_gradients)
               : BackwardGathered(projections, outputs, kept, output_gradients,
                                  projection_gradients);
  }
  tools_.kernels().AttentionBackward(
      WholeShape(), projections, tools_.At(projections, query_width_),
      tools_.At(projections, query_width_ + key_value_width_), outputs, kept, output_gradients,
      projection_gradients, tools_.At(projection_gradients, query_width_),
      tools_.At(projection_gradients, query_width_ + key_value_width_));
  return absl::OkStatus();
}

absl::Status AttentionPart::ExchangeTokens(const void* rows, int64_t row_stride, int64_t width,
                                           void* whole, int64_t whole_stride) const {
  const int64_t own_rows = own_token_count_ * sample_count_;
  const int64_t part = width / context_;
  PARPLAN_ASSIGN_OR_RETURN(const Array packed, tools_.Take(ArrayUse::kTransient, own_rows * width));
  PARPLAN_ASSIGN_OR_RETURN(const Array arrived,
                           tools_.Take(ArrayUse::kTransient, own_rows * width));
  for (int other = 0; other < context_; ++other) {
    tools_.kernels().CopyRows(tools_.At(rows, other * part), row_stride,
                              tools_.At(packed.data(), other * own_rows * part), part, own_rows,
                              part);
  }
  PARPLAN_RETURN_IF_ERROR(tools_.setting().context->Run({.operation = Operation::kAllToAll,
                                                         .type = tools_.kernels().type(),
                                                         .count = own_rows * part,
                                                         .send = packed.data(),
                                                         .receive = arrived.data()}));
  // Ranks have their tokens in order, so what arrived is too.
  tools_.kernels().CopyRows(arrived.data(), part, whole, whole_stride, own_rows * context_, part);
  return absl::OkStatus();
}

absl::Status AttentionPart::ExchangeHeads(const void* whole, int64_t whole_stride, int64_t width,
                                          void* rows, int64_t row_stride) const {
  const int64_t own_rows = own_token_count_ * sample_count_;
  const int64_t part = width / context_;
  PARPLAN_ASSIGN_OR_RETURN(const Array packed, tools_.Take(ArrayUse::kTransient, own_rows * width));
  PARPLAN_ASSIGN_OR_RETURN(const Array arrived,
                           tools_.Take(ArrayUse::kTransient, own_rows * width));
  tools_.kernels().CopyRows(whole, whole_stride, packed.data(), part, own_rows * context_, part);
  PARPLAN_RETURN_IF_ERROR(tools_.setting().context->Run({.operation = Operation::kAllToAll,
                                                         .type = tools_.kernels().type(),
                                                         .count = own_rows * part,
                                                         .send = packed.data(),
                                                         .receive = arrived.data()}));
  for (int other = 0; other < context_; ++other) {
    tools_.kernels().CopyRows(tools_.At(arrived.data(), other * own_rows * part), part,
                              tools_.At(rows, other * part), row_stride, own_rows, part);
  }
  return absl::OkStatus();
}

namespace {

// Attention of whole samples with a share of the heads.
AttentionShape ShareOfHeads(AttentionShape shape, int context) {
  shape.head_count /= context;
  shape.key_value_head_count /= context;
  shape.query_stride /= context;
  shape.key_value_stride /= context;
  shape.output_stride /= context;
  shape.query_sample_stride /= context;
  shape.key_value_sample_stride /= context;
  shape.output_sample_stride /= context;
  return shape;
}

}  // namespace

absl::Status AttentionPart::ForwardUlysses(const void* projections, void* outputs,
                                           void* kept) const {
  const int64_t rows = token_count_ * sample_count_;
  const int64_t width = projection_width();
  PARPLAN_ASSIGN_OR_RETURN(const Array whole,
                           tools_.Take(ArrayUse::kTransient, rows * width / context_));
  PARPLAN_ASSIGN_OR_RETURN(const Array result,
                           tools_.Take(ArrayUse::kTransient, rows * query_width_ / context_));
  const int64_t offsets[] = {0, query_width_, query_width_ + key_value_width_};
  const int64_t widths[] = {query_width_, key_value_width_, key_value_width_};
  for (int k = 0; k < 3; ++k) {
    PARPLAN_RETURN_IF_ERROR(ExchangeTokens(tools_.At(projections, offsets[k]), width, widths[k],
                                           tools_.At(whole.data(), offsets[k] / context_),
                                           width / context_));
  }
  tools_.kernels().Attention(ShareOfHeads(WholeShape(), context_), whole.data(),
                             tools_.At(whole.data(), offsets[1] / context_),
                             tools_.At(whole.data(), offsets[2] / context_), result.data(), kept);
  return ExchangeHeads(result.data(), query_width_ / context_, query_width_, outputs, query_width_);
}

absl::Status AttentionPart::BackwardUlysses(const void* projections, const void* outputs,
                                            const void* kept, const void* output_gradients,
                                            void* projection_gradients) const {
  const int64_t rows = token_count_ * sample_count_;
  const int64_t width = projection_width();
  const auto take = [&](int64_t row_width) {
    return tools_.Take(ArrayUse::kTransient, rows * row_width / context_);
  };
  PARPLAN_ASSIGN_OR_RETURN(const Array whole, take(width));
  PARPLAN_ASSIGN_OR_RETURN(const Array gradients, take(width));
  PARPLAN_ASSIGN_OR_RETURN(const Array result, take(query_width_));
  PARPLAN_ASSIGN_OR_RETURN(const Array result_gradients, take(query_width_));
  const int64_t offsets[] = {0, query_width_, query_width_ + key_value_width_};
  const int64_t widths[] = {query_width_, key_value_width_, key_value_width_};
  for (int k = 0; k < 3; ++k) {
    PARPLAN_RETURN_IF_ERROR(ExchangeTokens(tools_.At(projections, offsets[k]), width, widths[k],
                                           tools_.At(whole.data(), offsets[k] / context_),
                                           width / context_));
  }
  PARPLAN_RETURN_IF_ERROR(
      ExchangeTokens(outputs, query_width_, query_width_, result.data(), query_width_ / context_));
  PARPLAN_RETURN_IF_ERROR(ExchangeTokens(output_gradients, query_width_, query_width_,
                                         result_gradients.data(), query_width_ / context_));
  const auto part = [&](const Array& array, int k) {
    return tools_.At(array.data(), offsets[k] / context_);
  };
  tools_.kernels().AttentionBackward(ShareOfHeads(WholeShape(), context_), part(whole, 0),
                                     part(whole, 1), part(whole, 2), result.data(), kept,
                                     result_gradients.data(), part(gradients, 0),
                                     part(gradients, 1), part(gradients, 2));
  for (int k = 0; k < 3; ++k) {
    PARPLAN_RETURN_IF_ERROR(ExchangeHeads(part(gradients, k), width / context_, widths[k],
                                          tools_.At(projection_gradients, offsets[k]), width));
  }
  return absl::OkStatus();
}

absl::StatusOr<Array> AttentionPart::GatherKeysAndValues(const void* projections) const {
  const int64_t own_rows = own_token_count_ * sample_count_;
  const int64_t width = 2 * key_value_width_;
  PARPLAN_ASSIGN_OR_RETURN(const Array own, tools_.Take(ArrayUse::kTransient, own_rows * width));
  PARPLAN_ASSIGN_OR_RETURN(const Array gathered,
                           tools_.Take(ArrayUse::kTransient, own_rows * width * context_));
  PARPLAN_ASSIGN_OR_RETURN(Array ordered,
                           tools_.Take(ArrayUse::kTransient, own_rows * width * context_));
  tools_.kernels().CopyRows(tools_.At(projections, query_width_), projection_width(), own.data(),
                            width, own_rows, width);
  PARPLAN_RETURN_IF_ERROR(tools_.setting().context->AllGather(tools_.kernels().type(), own.data(),
                                                              gathered.data(), own_rows * width));
  int64_t row = 0;
  for (const std::vector<Interval>& pieces : pieces_) {
    for (const Interval& piece : pieces) {
      const int64_t rows = piece.size() * sample_count_;
      tools_.kernels().CopyRows(tools_.At(gathered.data(), row * width), width,
                                tools_.At(ordered.data(), piece.begin * sample_count_ * width),
                                width, rows, width);
      row += rows;
    }
  }
  return ordered;
}

absl::Status AttentionPart::ForwardGathered(const void* projections, void* outputs,
                                            void* kept) const {
  PARPLAN_ASSIGN_OR_RETURN(const Array keys, GatherKeysAndValues(projections));
  int64_t row = 0;
  for (const Interval& piece : own_pieces_) {
    tools_.kernels().Attention(PieceShape(piece), tools_.At(projections, row * projection_width()),
                               keys.data(), tools_.At(keys.data(), key_value_width_),
                               tools_.At(outputs, row * query_width_),
                               tools_.StatisticAt(kept, row * head_count_));
    row += piece.size() * sample_count_;
  }
  return absl::OkStatus();
}

absl::Status AttentionPart::BackwardGathered(const void* projections, const void* outputs,
                                             const void* kept, const void* output_gradients,
                                             void* projection_gradients) const {
  const int64_t width = 2 * key_value_width_;
  const int64_t own_rows = own_token_count_ * sample_count_;
  const int64_t size = own_rows * context_ * width;
  PARPLAN_ASSIGN_OR_RETURN(const Array keys, GatherKeysAndValues(projections));
  PARPLAN_ASSIGN_OR_RETURN(const Array sum, tools_.Take(ArrayUse::kTransient, size));
  PARPLAN_ASSIGN_OR_RETURN(const Array part, tools_.Take(ArrayUse::kTransient, size));
  LayerKernels& kernels = tools_.kernels();
  int64_t row = 0;
  for (size_t k = 0; k < own_pieces_.size(); ++k) {
    const Array& gradients = k == 0 ? sum : part;
    kernels.AttentionBackward(
        PieceShape(own_pieces_[k]), tools_.At(projections, row * projection_width()), keys.data(),
        tools_.At(keys.data(), key_value_width_), tools_.At(outputs, row * query_width_),
        tools_.StatisticAt(kept, row * head_count_),
        tools_.At(output_gradients, row * query_width_),
        tools_.At(projection_gradients, row * projection_width()), gradients.data(),
        tools_.At(gradients.data(), key_value_width_));
    if (k > 0) kernels.Add(part.data(), sum.data(), size);
    row += own_pieces_[k].size() * sample_count_;
  }
  // Every rank's part, in the order in which ranks have them.
  row = 0;
  for (const std::vector<Interval>& pieces : pieces_) {
    for (const Interval& piece : pieces) {
      const int64_t rows = piece.size() * sample_count_;
      kernels.CopyRows(tools_.At(sum.data(), piece.begin * sample_count_ * width), width,
                       tools_.At(part.data(), row * width), width, rows, width);
      row += rows;
    }
  }
  PARPLAN_RETURN_IF_ERROR(tools_.setting().context->ReduceScatter(kernels.type(), part.data(),
                                                                  sum.data(), own_rows * width));
  kernels.CopyRows(sum.data(), width, tools_.At(projection_gradients, query_width_),
                   projection_width(), own_rows, width);
  return absl::OkStatus();
}

}  // namespace parplan
