// Attention of ranks that share the tokens of samples: keys and values go round from rank to
// rank, and every rank attends to those it has with its own queries (Liu et al. 2023). Each has
// a piece from either end of a sample, so that causal attention costs all the same (Llama 3,
// section 3.3.2). Blocks travel while attention works on those that are there.

#ifndef PARPLAN_EXECUTOR_TRAINER_RING_ATTENTION_H_
#define PARPLAN_EXECUTOR_TRAINER_RING_ATTENTION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/trainer/layer_tools.h"

namespace parplan {

class RingAttention {
 public:
  // `shape`: of attention to whole samples, from rows of projections to rows of outputs.
  // `pieces`: [context rank] its tokens, in its order. `tools` outlives it.
  RingAttention(const LayerTools& tools, const AttentionShape& shape,
                std::vector<std::vector<Interval>> pieces);

  // Arrays of this rank's tokens; `logarithms` piece by piece.
  absl::Status Forward(const Array& projections, const Array& outputs,
                       const Array& logarithms) const;
  absl::Status Backward(const Array& projections, const Array& outputs, const Array& logarithms,
                        const Array& output_gradients, const Array& projection_gradients) const;

 private:
  // A piece of this rank's queries, and one of some rank's keys of which they see some.
  struct Meeting {
    AttentionShape shape;
    int64_t query_row = 0;
    int64_t key_row = 0;
    // The first keys these queries meet.
    bool is_first = false;
  };

  int rank() const;
  int degree() const { return static_cast<int>(pieces_.size()); }
  // In the given step, with the keys of the rank so many places before.
  std::vector<Meeting> MeetingsOf(int step) const;
  absl::StatusOr<Array> TakeBlock() const;
  absl::StatusOr<Array> OwnKeysAndValues(const Array& projections) const;
  // Starts handing `from` to the next rank and taking `to` from the one before.
  absl::StatusOr<std::vector<std::unique_ptr<PendingWork>>> PassOn(const Array& from,
                                                                   const Array& to) const;

  const LayerTools& tools_;
  const AttentionShape shape_;
  const std::vector<std::vector<Interval>> pieces_;
  const int64_t query_width_;
  const int64_t key_value_width_;
  const int64_t projection_width_;
  // Of this rank.
  const int64_t row_count_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_RING_ATTENTION_H_
