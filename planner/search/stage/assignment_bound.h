// Lower bounds for the assignment of strategies to the layers of a stage, and assignments close to
// them.
//
// Lagrangian relaxation of the memory budget: with a price per byte instead of a limit, the best
// assignment is a shortest path over (layer, layout). Every price gives a lower bound; the best
// price is the one at which a path within the budget and one beyond it cost the same. Used by
// `AssignStrategies` and `StepLowerBound`.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_ASSIGNMENT_BOUND_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_ASSIGNMENT_BOUND_H_

#include <cstdint>
#include <vector>

#include "planner/search/stage/capped_stage.h"

namespace parplan {

// An assignment and its cost.
struct CappedAssignment {
  int64_t ticks = 0;
  int64_t extra_bytes = 0;
  // [layer] index into `CappedChoices::options`.
  std::vector<int> choices;
};

// A lower bound, at one price, for the layers from a given one on.
class SuffixBound {
 public:
  SuffixBound() = default;
  SuffixBound(double ticks_per_byte, std::vector<double> values, int layout_count, double slack)
      : ticks_per_byte_(ticks_per_byte),
        values_(std::move(values)),
        layout_count_(layout_count),
        slack_(slack) {}

  // Returns a lower bound of the time, in ticks, of layers `layer` and later, if the layers before
  // end in `layout` and `room` bytes are left for their extra memory: value(layer, layout) -
  // ticks_per_byte() * room.
  double value(int layer, int layout) const { return values_[layer * layout_count_ + layout]; }
  double ticks_per_byte() const { return ticks_per_byte_; }
  // The largest error that rounding can have caused in such a bound.
  double slack() const { return slack_; }

 private:
  double ticks_per_byte_ = 0.0;
  std::vector<double> values_;
  int layout_count_ = 1;
  double slack_ = 0.0;
};

// The result of the relaxation for one stage and one amount of extra memory.
struct Relaxation {
  // Lower bound in ticks of any assignment.
  double bound = 0.0;
  // The bounds at price 0 (`free`) and at the best price (`tight`).
  SuffixBound free;
  SuffixBound tight;
  // An assignment that fits and whose time is close to the bound.
  CappedAssignment incumbent;
};

// Solves the relaxation. REQUIRES: room >= 0, so that an assignment exists.
Relaxation Relax(const CappedStage& stage, int64_t room);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_ASSIGNMENT_BOUND_H_
