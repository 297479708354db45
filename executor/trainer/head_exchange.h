// The all-to-alls of DeepSpeed-Ulysses, between rows that are split by tokens and rows that are
// split by heads (Jacobs et al. 2023, section 3.1). `AttentionPart` uses it.

#ifndef PARPLAN_EXECUTOR_TRAINER_HEAD_EXCHANGE_H_
#define PARPLAN_EXECUTOR_TRAINER_HEAD_EXCHANGE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "executor/trainer/layer_tools.h"

namespace parplan {

// Used by the thread of the trainer. By tokens a rank has `row_count` rows with all heads, `width`
// elements wide, `row_stride` elements apart. By heads it has the rows of all ranks, in the order
// of the group, with its share of the heads, `width` / ranks elements wide, `whole_stride` elements
// apart.
class HeadExchange {
 public:
  // `row_count`: rows of this rank when split by tokens. `tools` outlives it.
  HeadExchange(const LayerTools& tools, int64_t row_count);

  // Exchange `rows` for `whole` and back. Meanwhile they take two transient arrays of `row_count` x
  // `width` elements. Collective over the context group; pointers are to device memory. REQUIRES,
  // unchecked: there is a context group, its ranks have consecutive tokens in their order, and its
  // size divides `width`. Return the errors of memory and of the communicator (layer_tools.h).
  absl::Status ToHeads(const void* rows, int64_t row_stride, int64_t width, void* whole,
                       int64_t whole_stride) const;
  absl::Status ToTokens(const void* whole, int64_t whole_stride, int64_t width, void* rows,
                        int64_t row_stride) const;

 private:
  // Exchanges [rank][row][share of the heads] from `packed` to `arrived`.
  absl::Status Exchange(const Array& packed, const Array& arrived, int64_t width) const;

  const LayerTools& tools_;
  const int64_t row_count_;
  const int ways_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_HEAD_EXCHANGE_H_
