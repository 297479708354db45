// Random sizes of the groups in which interleaved pipelines take micro-batches.

#ifndef PARPLAN_TESTS_SUPPORT_GROUP_SIZE_DICE_H_
#define PARPLAN_TESTS_SUPPORT_GROUP_SIZE_DICE_H_

#include <cstdint>
#include <vector>

namespace parplan {

// Returns one of the sizes that `Plan::micro_batch_group_size` may have, 0 included, with equal
// probability. `random` is a generator of the standard library.
template <typename Random>
int64_t DrawGroupSize(int pipeline_parallel_degree, int virtual_stage_count,
                      int64_t micro_batch_count, Random& random) {
  std::vector<int64_t> sizes = {0};
  for (int64_t size = pipeline_parallel_degree + 1; size <= micro_batch_count; ++size) {
    if (pipeline_parallel_degree == 1 || virtual_stage_count == 1) break;
    // Whole groups are taken away until at most one is left.
    int64_t last = micro_batch_count;
    while (last > size) last -= size;
    if (last >= pipeline_parallel_degree) sizes.push_back(size);
  }
  return sizes[random() % sizes.size()];
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_GROUP_SIZE_DICE_H_
