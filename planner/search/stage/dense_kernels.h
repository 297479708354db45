// The two inner loops of the dense dynamic programme. Used by `DenseAssignment`. They use AVX2 if
// the processor has it; the numbers are the same. They may run on several threads at once. Arrays
// may have any alignment, sums must fit an int32_t, and nothing is checked.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_DENSE_KERNELS_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_DENSE_KERNELS_H_

#include <cstdint>

#include "absl/types/span.h"

namespace parplan {

// Sets arrival[i] = min over j of before[j][i] + add[j], for i below `count`. REQUIRES, unchecked:
// at least one j, as many `add` as `before`, and an `arrival` that overlaps none of them.
void LeastSums(absl::Span<const int32_t* const> before, absl::Span<const int32_t> add,
               int64_t count, int32_t* arrival);

// Sets target[i] = min(target[i], source[i] + add), for i below `count`. REQUIRES, unchecked: the
// two do not overlap.
void TakeLeast(const int32_t* source, int32_t add, int64_t count, int32_t* target);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_DENSE_KERNELS_H_
