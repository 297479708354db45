// Lower bounds for the assignment of strategies, and assignments close to them.
//
// The Lagrangian relaxation of the budget: with a price per byte instead of a
// limit, the best assignment is a shortest path over (layer, layout). Every
// price gives a lower bound; the best price is found where a path within the
// budget and one beyond it cost the same.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_ASSIGNMENT_BOUND_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_ASSIGNMENT_BOUND_H_

#include <cstdint>
#include <vector>

#include "planner/search/stage/capped_stage.h"

namespace parplan {

// An assignment and what it costs.
struct CappedAssignment {
  int64_t ticks = 0;
  int64_t extra_bytes = 0;
  // [layer] index into `CappedChoices::options`.
  std::vector<int> choices;
};

// For one price: what the layers from one on cost at least.
class SuffixBound {
 public:
  SuffixBound() = default;
  SuffixBound(double ticks_per_byte, std::vector<double> values, int layout_count, double slack)
      : ticks_per_byte_(ticks_per_byte),
        values_(std::move(values)),
        layout_count_(layout_count),
        slack_(slack) {}

  // Least time of any completion, when the layers before `layer` end in
  // `layout` and `room` bytes are left for the extra memory of the rest:
  // value(layer, layout) - ticks_per_byte() * room.
  double value(int layer, int layout) const { return values_[layer * layout_count_ + layout]; }
  double ticks_per_byte() const { return ticks_per_byte_; }
  // How far rounding can have moved such a bound.
  double slack() const { return slack_; }

 private:
  double ticks_per_byte_ = 0.0;
  std::vector<double> values_;
  int layout_count_ = 1;
  double slack_ = 0.0;
};

// What relaxation says of a stage and a room for extra memory.
struct Relaxation {
  // No assignment takes fewer ticks.
  double bound = 0.0;
  // At price 0 and at the best price.
  SuffixBound free;
  SuffixBound tight;
  // Fits, and is close to the bound.
  CappedAssignment incumbent;
};

// REQUIRES: room >= 0, so that there is an assignment.
Relaxation Relax(const CappedStage& stage, int64_t room);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_ASSIGNMENT_BOUND_H_
