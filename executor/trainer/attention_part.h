// Attention of one layer, from fused projections to outputs, on ranks that may share tokens
// and heads.

#ifndef PARPLAN_EXECUTOR_TRAINER_ATTENTION_PART_H_
#define PARPLAN_EXECUTOR_TRAINER_ATTENTION_PART_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/trainer/head_exchange.h"
#include "executor/trainer/layer_tools.h"
#include "executor/trainer/ring_attention.h"

namespace parplan {

// Rows are those of products, tokens times samples; a row of projections holds queries, keys
// and values of this rank's heads, a row of outputs the heads' outputs.
//
// Ranks that share tokens do it in one of two ways. With all-to-alls they exchange tokens
// for heads and attend to whole samples (DeepSpeed-Ulysses). Otherwise keys and values go round
// (ring_attention.h).
class AttentionPart {
 public:
  // What the backward pass needs besides the outputs.
  struct Kept {
    // As attention reads them: of all tokens and a share of the heads with all-to-alls.
    Array projections;
    Array logarithms;
    // With all-to-alls the outputs as attention made them.
    Array whole_outputs;
  };

  // `tools` outlives it.
  explicit AttentionPart(const LayerTools& tools);

  // Elements of a row of projections and of outputs.
  int64_t projection_width() const { return query_width_ + 2 * key_value_width_; }
  int64_t output_width() const { return query_width_; }

  // Turns queries and keys by the positions of their tokens, where the model tells positions
  // so; or back again.
  void ApplyRotary(const Array& projections, bool inverse) const;

  // The outputs, which count as `use` as all that is kept does.
  absl::StatusOr<Array> Forward(Array projections, ArrayUse use, Kept& kept) const;
  // Computes again what a selective recomputation has dropped: the logarithms. `outputs` are
  // written again as they were.
  absl::Status Recompute(Kept& kept, const Array& outputs) const;
  // The gradients of the projections. Leaves nothing kept.
  absl::StatusOr<Array> Backward(Kept kept, Array outputs, Array output_gradients) const;

 private:
  bool is_ulysses() const {
    return context_ > 1 && tools_.strategy().context_kind == ContextKind::kUlysses;
  }
  bool is_ring() const {
    return context_ > 1 && tools_.strategy().context_kind == ContextKind::kRing;
  }
  AttentionShape WholeShape() const;
  int64_t KeptSize() const { return sample_count_ * own_token_count_ * head_count_; }
  // Attention of whole samples with this rank's heads, or a share of them.
  void Attend(const Kept& kept, const Array& outputs) const;
  // Query, key or value (0, 1 or 2) in rows of projections that are split `ways` ways.
  void* PartOf(const Array& projections, int k, int ways) const;
  absl::StatusOr<Array> ForwardUlysses(Array projections, ArrayUse use, Kept& kept) const;
  absl::StatusOr<Array> BackwardUlysses(Kept kept, Array outputs, Array output_gradients) const;

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
  // [context rank] the tokens of each, in its order.
  std::vector<std::vector<Interval>> pieces_;
  const HeadExchange exchange_;
  const RingAttention ring_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_ATTENTION_PART_H_
