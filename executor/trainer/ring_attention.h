// Attention of ranks that share the tokens of samples: keys and values go round from rank to rank,
// and every rank attends to those it has with its own queries (Ring Attention; Liu et al. 2023).
// Each rank has a piece from either end of a sample, so that causal attention costs the same on all
// (Llama 3, section 3.3.2). The next block of keys is sent while attention works on the present
// one. `AttentionPart` uses it.

#ifndef PARPLAN_EXECUTOR_TRAINER_RING_ATTENTION_H_
#define PARPLAN_EXECUTOR_TRAINER_RING_ATTENTION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/trainer/layer_tools.h"

namespace parplan {

// Used by the thread of the trainer.
class RingAttention {
 public:
  // `shape`: of attention of whole samples, from rows of projections to rows of outputs. `pieces`:
  // [context rank] the tokens it has, in its order. Each rank has as many tokens, and none is on
  // two ranks. REQUIRES, unchecked, once `Forward` or `Backward` is called: at least two ranks,
  // which are those of the context communicator of `tools`, which outlives it.
  RingAttention(const LayerTools& tools, const AttentionShape& shape,
                std::vector<std::vector<Interval>> pieces);

  // `Forward` writes `outputs` and `logarithms`; `Backward` replaces all of `projection_gradients`.
  // Collective over the context group. Return the errors of memory and communicators
  // (layer_tools.h). Arrays have one row for each token of this rank and sample, [token][sample]
  // (AttentionPart); `logarithms` is [piece][sample][head][query], of the type of statistics.
  absl::Status Forward(const Array& projections, const Array& outputs,
                       const Array& logarithms) const;
  absl::Status Backward(const Array& projections, const Array& outputs, const Array& logarithms,
                        const Array& output_gradients, const Array& projection_gradients) const;

 private:
  // A piece of this rank's queries and a piece of some rank's keys of which they see some.
  struct Meeting {
    AttentionShape shape;
    int64_t query_row = 0;
    int64_t key_row = 0;
    // Whether these are the first keys for these queries.
    bool is_first = false;
  };

  int rank() const;
  int degree() const { return static_cast<int>(pieces_.size()); }
  // Lists the meetings of step `step`, in which this rank has the keys of the rank `step` places
  // before it in the ring.
  std::vector<Meeting> MeetingsOf(int step) const;
  absl::StatusOr<Array> TakeBlock() const;
  absl::StatusOr<Array> OwnKeysAndValues(const Array& projections) const;
  // Starts sending `from` to the next rank and receiving `to` from the previous one.
  absl::StatusOr<std::unique_ptr<PendingWork>> PassOn(const Array& from, const Array& to) const;

  const LayerTools& tools_;
  const AttentionShape shape_;
  const std::vector<std::vector<Interval>> pieces_;
  const int64_t query_width_;
  const int64_t key_value_width_;
  const int64_t projection_width_;
  // Rows on this rank.
  const int64_t row_count_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_RING_ATTENTION_H_
