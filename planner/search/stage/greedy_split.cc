#include "planner/search/stage/greedy_split.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace parplan {

Partition GreedyMemorySplit(absl::Span<const double> layer_memory, double shared_memory,
                            int stage_count, double too_full) {
  PARPLAN_CHECK(stage_count >= 1 && stage_count <= static_cast<int>(layer_memory.size()));
  const double total = std::accumulate(layer_memory.begin(), layer_memory.end(), 0.0);
  const double target = (total + shared_memory) / stage_count;
  Partition sizes(stage_count, 0);
  int layer = static_cast<int>(layer_memory.size()) - 1;
  for (int stage = stage_count - 1; stage > 0; --stage) {
    double filled = 0.0;
    while (layer >= 0 && target - filled >= 0.5 * layer_memory[layer]) {
      filled += layer_memory[layer--];
      ++sizes[stage];
    }
  }
  sizes[0] = layer + 1;
  int first = 0;
  for (int stage = 0; stage + 1 < stage_count; ++stage) {
    const auto begin = layer_memory.begin() + first;
    while (sizes[stage] > 1 &&
           std::accumulate(begin, begin + sizes[stage], 0.0) > too_full * target) {
      --sizes[stage];
      ++sizes[stage + 1];
    }
    while (sizes[stage] < 1) {
      ++sizes[stage];
      --sizes[stage + 1];
    }
    first += sizes[stage];
  }
  return sizes;
}

Partition GreedyMemorySplitOr(absl::Span<const double> layer_memory, const Partition& even) {
  Partition greedy = GreedyMemorySplit(layer_memory, 0.0, static_cast<int>(even.size()));
  return *std::min_element(greedy.begin(), greedy.end()) < 1 ? even : greedy;
}

}  // namespace parplan
