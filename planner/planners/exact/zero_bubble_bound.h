// A lower bound of the step of ZB-H1 over all partitions, from least times of layers.
// `SearchZeroBubble` orders its candidates by it, and proves with it.
//
// Words (docs/glossary.md): a partition is the number of layers of each stage; a cutoff is a time
// that a plan must stay below to be wanted.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_ZERO_BUBBLE_BOUND_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_ZERO_BUBBLE_BOUND_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace parplan {

// Times of one layer, in seconds, each the least over all its strategies by itself.
struct LeastLayerTimes {
  double forward = 0.0;
  // Forward pass and the part of the backward pass for gradients of inputs.
  double forward_and_inputs = 0.0;
  // The part for gradients of weights.
  double weights = 0.0;
  // Both passes.
  double work = 0.0;
  // Once a step, after the last pass.
  double sync = 0.0;
};

// The layers of a model, as sums over the first of them.
//
//   const ZeroBubbleBound bound(layers);
//   if (bound.Of(P, m, cutoff) >= cutoff) ...  // No plan of the candidate is wanted.
class ZeroBubbleBound {
 public:
  //   layers   [layer] in the order of the model
  explicit ZeroBubbleBound(absl::Span<const LeastLayerTimes> layers);

  // Returns a lower bound of the step, without its overhead, of all plans with so many stages and
  // micro-batches, or `cutoff` if that is less; infinite if there are fewer layers than stages.
  // docs/search.md ("Zero-bubble plans") has the proof. O(P log(layers)) if it is the cutoff, else
  // some 40 times as long.
  double Of(int pipeline_parallel_degree, int64_t micro_batch_count, double cutoff) const;

 private:
  // Returns whether the layers can be divided so that no path of a stage is longer than `step`.
  bool Fits(int pipeline_parallel_degree, int64_t micro_batch_count, double step) const;
  // Returns the longer of two paths through layers [first, end) as stage `stage`.
  double PathOf(int stage, int first, int end, int64_t micro_batch_count) const;
  int layer_count() const { return static_cast<int>(sums_.size()) - 1; }

  // [layer] the sums over all layers before it.
  std::vector<LeastLayerTimes> sums_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_ZERO_BUBBLE_BOUND_H_
