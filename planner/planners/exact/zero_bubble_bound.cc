#include "planner/planners/exact/zero_bubble_bound.h"

#include <algorithm>

#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// Halvings of the interval that contains the bound: 40 leave 1e-12 of it.
constexpr int kHalvings = 40;

}  // namespace

ZeroBubbleBound::ZeroBubbleBound(absl::Span<const LeastLayerTimes> layers) : sums_(1) {
  for (const LeastLayerTimes& layer : layers) {
    const LeastLayerTimes& before = sums_.back();
    sums_.push_back(
        {before.forward + layer.forward, before.forward_and_inputs + layer.forward_and_inputs,
         before.weights + layer.weights, before.work + layer.work, before.sync + layer.sync});
  }
}

double ZeroBubbleBound::PathOf(int stage, int first, int end, int64_t micro_batch_count) const {
  const auto m = static_cast<double>(micro_batch_count);
  const LeastLayerTimes& before = sums_[first];
  const LeastLayerTimes& after = sums_[end];
  const double all = before.forward + m * (after.work - before.work) + after.sync - before.sync;
  if (stage == 0) return all;
  // Weight passes before the last backward pass of the stage.
  const auto weights = static_cast<double>(std::max<int64_t>(micro_batch_count - 1 - stage, 0));
  const double back = before.forward_and_inputs +
                      m * (after.forward_and_inputs - before.forward_and_inputs) +
                      weights * (after.weights - before.weights) + sums_[1].weights + sums_[1].sync;
  return std::max(all, back);
}

// A stage that begins later may end no earlier, because its path gets no longer by layers that it
// leaves to the stages before. So taking as many layers as fit, stage by stage, loses nothing.
bool ZeroBubbleBound::Fits(int pipeline_parallel_degree, int64_t micro_batch_count,
                           double step) const {
  int first = 0;
  for (int stage = 0; stage < pipeline_parallel_degree; ++stage) {
    // Each stage after it has a layer.
    int low = first;
    int high = layer_count() - (pipeline_parallel_degree - 1 - stage);
    while (low < high) {
      const int end = low + (high - low + 1) / 2;
      if (PathOf(stage, first, end, micro_batch_count) <= step) {
        low = end;
      } else {
        high = end - 1;
      }
    }
    if (low == first) return false;
    first = low;
  }
  return first == layer_count();
}

double ZeroBubbleBound::Of(int pipeline_parallel_degree, int64_t micro_batch_count,
                           double cutoff) const {
  if (layer_count() < pipeline_parallel_degree) return kInfinity;
  // One micro-batch after the other through all stages, twice, which the bound never exceeds.
  double high =
      static_cast<double>(micro_batch_count) * 2.0 * sums_.back().work + sums_.back().sync;
  if (cutoff < high) {
    high = cutoff;
    if (!Fits(pipeline_parallel_degree, micro_batch_count, high)) return cutoff;
  }
  double low = 0.0;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = low + (high - low) / 2.0;
    if (Fits(pipeline_parallel_degree, micro_batch_count, middle)) {
      high = middle;
    } else {
      low = middle;
    }
  }
  // Differences of sums round up or down.
  return low * (1.0 - 1e-12);
}

}  // namespace parplan
