#include "planner/planners/exact/interleaved/group_sizes.h"

#include <algorithm>

#include "planner/model/pass_order.h"

namespace parplan {
namespace {

// Sizes up to which all are tried. Each is a simulation of every plan that no bound excludes, so
// more of them take longer; not measured for other values.
constexpr size_t kMaxSizes = 16;
// Sizes that are tried of more, as multiples of an eighth of the pipeline degree. The first stands
// for the smallest size there is, which needs the least memory; all micro-batches in one group come
// on top. What a larger group gains, it gains early: messages have a tick more to travel with each
// micro-batch, and a virtual stage less work than others leaves its device waiting for fewer ticks.
// Not measured for other values.
constexpr int64_t kEighths[] = {8, 9, 10, 12, 16, 24, 32, 64};

}  // namespace

GroupSizes GroupSizesOf(const StrategySpace& space, int pipeline_parallel_degree,
                        int64_t micro_batch_count) {
  GroupSizes sizes;
  if (!HasGroupSizes(space, pipeline_parallel_degree, micro_batch_count)) return sizes;
  const auto is_size = [=](int64_t size) {
    return IsGroupSize(size, pipeline_parallel_degree, micro_batch_count);
  };
  for (int64_t size = pipeline_parallel_degree + 1; size <= micro_batch_count; ++size) {
    if (!is_size(size)) continue;
    sizes.tried.push_back(size);
    if (sizes.tried.size() > kMaxSizes) break;
  }
  if (sizes.tried.size() <= kMaxSizes) return sizes;
  sizes.are_all = false;
  sizes.tried.clear();
  for (const int64_t eighths : kEighths) {
    int64_t size = std::max<int64_t>(pipeline_parallel_degree + 1,
                                     (pipeline_parallel_degree * eighths + 7) / 8);
    while (size < micro_batch_count && !is_size(size)) ++size;
    if (size < micro_batch_count && (sizes.tried.empty() || size > sizes.tried.back())) {
      sizes.tried.push_back(size);
    }
  }
  sizes.tried.push_back(micro_batch_count);
  return sizes;
}

bool HasGroupSizes(const StrategySpace& space, int pipeline_parallel_degree,
                   int64_t micro_batch_count) {
  // All micro-batches are one group.
  return space.dimensions().has(SearchDimension::kGroupSize) && pipeline_parallel_degree > 1 &&
         micro_batch_count > pipeline_parallel_degree;
}

}  // namespace parplan
