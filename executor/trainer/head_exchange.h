// All-to-alls between ranks that share the tokens of samples and ranks that share their heads
// (Jacobs et al. 2023, section 3.1).

#ifndef PARPLAN_EXECUTOR_TRAINER_HEAD_EXCHANGE_H_
#define PARPLAN_EXECUTOR_TRAINER_HEAD_EXCHANGE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "executor/trainer/layer_tools.h"

namespace parplan {

// Strides are elements from a row to the next, on either side: `row_stride` of this rank's rows
// with all heads, `width` wide, and `whole_stride` of the rows of all ranks with this rank's
// share of the heads.
class HeadExchange {
 public:
  // `row_count`: rows of this rank. `tools` outlives it.
  HeadExchange(const LayerTools& tools, int64_t row_count);

  absl::Status ToHeads(const void* rows, int64_t row_stride, int64_t width, void* whole,
                       int64_t whole_stride) const;
  absl::Status ToTokens(const void* whole, int64_t whole_stride, int64_t width, void* rows,
                        int64_t row_stride) const;

 private:
  // From `packed` to `arrived`, a part of the heads for each rank in either.
  absl::Status Exchange(const Array& packed, const Array& arrived, int64_t width) const;

  const LayerTools& tools_;
  const int64_t row_count_;
  const int ways_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_HEAD_EXCHANGE_H_
