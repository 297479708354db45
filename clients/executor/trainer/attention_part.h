// Attention of one layer, from fused projections to outputs, on ranks that may share tokens
// and heads.

#ifndef PARPLAN_CLIENTS_EXECUTOR_TRAINER_ATTENTION_PART_H_
#define PARPLAN_CLIENTS_EXECUTOR_TRAINER_ATTENTION_PART_H_

#include <vector>

#include "absl/status/status.h"
#include "clients/executor/trainer/layer_tools.h"

namespace parplan {

// Rows are those of products, tokens times samples; a row of projections holds queries, keys
// and values of this rank's heads, a row of outputs the heads' outputs.
//
// Ranks that share tokens do it in one of two ways. With all-to-alls they exchange tokens
// for heads and attend to whole samples (DeepSpeed-Ulysses). Otherwise every rank gathers
// keys and values and attends with its own queries, a piece from either end of the sample,
// so that causal attention costs all the same (Llama 3, section 3.3.2).
class AttentionPart {
 public:
  // `tools` outlives it.
  explicit AttentionPart(const LayerTools& tools);

  // Elements of a row of projections and of outputs.
  int64_t projection_width() const { return query_width_ + 2 * key_value_width_; }
  int64_t output_width() const { return query_width_; }
  // Statistics kept from forward to backward besides projections and outputs.
  int64_t KeptSize() const;

  absl::Status Forward(const void* projections, void* outputs, void* kept) const;
  // Writes the gradients of the projections.
  absl::Status Backward(const void* projections, const void* outputs, const void* kept,
                        const void* output_gradients, void* projection_gradients) const;

 private:
  bool is_causal() const;
  AttentionShape WholeShape() const;
  // Of queries of one piece of this rank's tokens, to the keys of the whole sample.
  AttentionShape PieceShape(const Interval& piece) const;
  // Tokens for heads and back. `width` of a row of all heads.
  absl::Status ExchangeTokens(const void* rows, int64_t row_stride, int64_t width, void* whole,
                              int64_t whole_stride) const;
  absl::Status ExchangeHeads(const void* whole, int64_t whole_stride, int64_t width, void* rows,
                             int64_t row_stride) const;
  absl::Status ForwardUlysses(const void* projections, void* outputs, void* kept) const;
  absl::Status BackwardUlysses(const void* projections, const void* outputs, const void* kept,
                               const void* output_gradients, void* projection_gradients) const;
  // Keys and values of all ranks, in the order of tokens.
  absl::StatusOr<Array> GatherKeysAndValues(const void* projections) const;
  absl::Status ForwardGathered(const void* projections, void* outputs, void* kept) const;
  absl::Status BackwardGathered(const void* projections, const void* outputs, const void* kept,
                                const void* output_gradients, void* projection_gradients) const;

  const LayerTools& tools_;
  const int context_;
  const int head_count_;
  const int key_value_head_count_;
  const int64_t query_width_;
  const int64_t key_value_width_;
  // Of a sample, and of this rank where ranks share them.
  const int64_t token_count_;
  const int64_t own_token_count_;
  const int64_t sample_count_;
  // [context rank] the tokens of each, in its order; and this rank's.
  std::vector<std::vector<Interval>> pieces_;
  std::vector<Interval> own_pieces_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_EXECUTOR_TRAINER_ATTENTION_PART_H_
