// Lower bounds for the assignment of strategies to the layers of a stage, and assignments close to
// them.
//
// Lagrangian relaxation of the memory budget: with a price per byte instead of a limit, the best
// assignment is a shortest path over (layer, layout). Every price gives a lower bound; the best
// price is the one at which a path within the budget and one beyond it cost the same. Used by
// `AssignStrategies` and `StepLowerBound`.
//
// Words (docs/glossary.md): a price is the Lagrangian multiplier of memory, in seconds per byte;
// options have one layout if activations move between them at no cost; an option is a strategy of a
// layer definition with its costs (option_table.h); a tick is a power of two of a second, to which
// times are rounded (tick_scale.h).

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_ASSIGNMENT_BOUND_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_ASSIGNMENT_BOUND_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/search/stage/capped_stage.h"

namespace parplan {

// An assignment and its cost.
struct CappedAssignment {
  // Sums over the layers; the ticks include those of transitions.
  int64_t ticks = 0;
  int64_t extra_bytes = 0;
  // [layer] index into `CappedChoices::options` of the layer's kind.
  std::vector<int> choices;
};

// Lower bounds, at one price of memory, for the time of a layer and all layers after it. `Relax`
// makes them.
//
// Let the layers before `layer` end in `layout` and leave `room` bytes for the extra memory of the
// others. At the price these take at least `value(layer, layout)` ticks, where each byte of extra
// memory costs `ticks_per_byte()`; they can spend no more than `room` bytes, so their time is at
// least
//
//   value(layer, layout) - ticks_per_byte() * room - slack()
class SuffixBound {
 public:
  SuffixBound() = default;
  // `values` is [layer * layout_count + layout], for one more layer than the stage has.
  SuffixBound(double ticks_per_byte, std::vector<double> values, int layout_count, double slack)
      : ticks_per_byte_(ticks_per_byte),
        values_(std::move(values)),
        layout_count_(layout_count),
        slack_(slack) {}

  // Returns the least cost at the price, time and extra memory together, of the layers from `layer`
  // on: the first term of the bound, which is no bound by itself. 0 if `layer` is the number of
  // layers. REQUIRES: `layer` is at least 1 and at most that number, and the layer before it has an
  // option in `layout`; nothing checks this.
  double value(int layer, int layout) const { return values_[layer * layout_count_ + layout]; }
  // Returns the price.
  double ticks_per_byte() const { return ticks_per_byte_; }
  // The largest error, in ticks, that rounding can have caused in the other two terms.
  double slack() const { return slack_; }

 private:
  double ticks_per_byte_ = 0.0;
  std::vector<double> values_;
  int layout_count_ = 1;
  double slack_ = 0.0;
};

// The result of the relaxation for one stage and one amount of extra memory.
struct Relaxation {
  // Lower bound in ticks of any assignment that fits. The slack is taken off already, so it may be
  // a little below 0.
  double bound = 0.0;
  // The bounds at price 0 (`free`) and at the best price (`tight`), which are equal if the fastest
  // assignment fits.
  SuffixBound free;
  SuffixBound tight;
  // The best assignment that was met and fits. Its time is at least the bound and often close to
  // it, which nothing promises.
  CappedAssignment incumbent;
};

// Solves the relaxation for `room` bytes of extra memory, those that all layers of the stage may
// keep together beyond the least of each (`CappedStage::ExtraRoom`). Finds at most 66 shortest
// paths, usually few, each in O(layers * layouts^2 + options) time. REQUIRES: room >= 0; aborts
// otherwise. Then an assignment fits, since each layer has an option without extra memory.
// REQUIRES, unchecked: the stage has a layer.
Relaxation Relax(const CappedStage& stage, int64_t room);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_ASSIGNMENT_BOUND_H_
