// The attention of one layer, from fused projections to outputs, on ranks that may share tokens and
// heads. `TransformerLayer` has one.

#ifndef PARPLAN_EXECUTOR_TRAINER_ATTENTION_PART_H_
#define PARPLAN_EXECUTOR_TRAINER_ATTENTION_PART_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/trainer/head_exchange.h"
#include "executor/trainer/layer_tools.h"
#include "executor/trainer/ring_attention.h"

namespace parplan {

// Rows are those of products, [token][sample]. Projections are [product_row_count x
// projection_width()]: queries, keys and values of this rank's heads. Outputs are
// [product_row_count x output_width()].
//
// Used by the thread of the trainer. `Forward`, `Recompute` and `Backward` are collective over the
// context group; errors are those of memory and communicators (layer_tools.h).
//
// Ranks that share tokens do it in one of two ways. With all-to-alls they exchange tokens for heads
// and attend to whole samples (DeepSpeed-Ulysses; Jacobs et al. 2023, section 3.1). Otherwise keys
// and values go round a ring (ring_attention.h).
class AttentionPart {
 public:
  // Arrays that the backward pass needs in addition to the outputs.
  struct Kept {
    // Projections as attention reads them: with all-to-alls those of all tokens and this rank's
    // share of the heads.
    Array projections;
    // [sample][head][query], or with a ring [piece][sample][head][query], logarithms of the sums of
    // exponentials, of the type of statistics.
    Array logarithms;
    // With all-to-alls, the outputs of all tokens and this rank's share of the heads.
    Array whole_outputs;
  };

  // `tools` outlives it.
  explicit AttentionPart(const LayerTools& tools);

  // Returns UNIMPLEMENTED if the device has no kernels for this attention; before the first step.
  absl::Status Check() const;

  // Numbers of elements of a row of projections, and of outputs.
  int64_t projection_width() const { return query_width_ + 2 * key_value_width_; }
  int64_t output_width() const { return query_width_; }

  // Applies rotary position embeddings to queries and keys, or their inverse, if the layer has a
  // SwiGLU feed-forward block; else does nothing. The caller applies them before `Forward`, and the
  // inverse to what `Backward` returns.
  void ApplyRotary(const Array& projections, bool inverse) const;

  // Returns the outputs; they and what is kept count under `use`, but for `projections`, which
  // without all-to-alls are kept as they were taken.
  absl::StatusOr<Array> Forward(Array projections, ArrayUse use, Kept& kept) const;
  // Recomputes the logarithms, which selective recomputation drops; writes `outputs`, with
  // all-to-alls the kept `whole_outputs` instead, again with the same values. The logarithms count
  // as transient.
  absl::Status Recompute(Kept& kept, const Array& outputs) const;
  // Returns the gradients of the projections; frees what was kept. `outputs` are those of
  // `Forward`, and `output_gradients` have their shape.
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
  // Attends to whole samples with this rank's heads, or with all-to-alls with its share of them.
  void Attend(const Kept& kept, const Array& outputs) const;
  // Returns the address of the queries, keys or values (k = 0, 1 or 2) in rows of projections that
  // are split into `ways` parts.
  void* PartOf(const Array& projections, int k, int ways) const;
  absl::StatusOr<Array> ForwardUlysses(Array projections, ArrayUse use, Kept& kept) const;
  absl::StatusOr<Array> BackwardUlysses(Kept kept, Array outputs, Array output_gradients) const;

  const LayerTools& tools_;
  const int context_;
  const int head_count_;
  const int key_value_head_count_;
  const int64_t query_width_;
  const int64_t key_value_width_;
  // Tokens of a sample, and those of them on this rank.
  const int64_t token_count_;
  const int64_t own_token_count_;
  const int64_t sample_count_;
  // [context rank] the tokens it has, in its order.
  std::vector<std::vector<Interval>> pieces_;
  const HeadExchange exchange_;
  const RingAttention ring_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_ATTENTION_PART_H_
