// The price of memory: the Lagrangian relaxation of a budget that layers share. Used by
// `SolveStage` and `StageBound`.
//
// Words (docs/glossary.md): an option is a strategy of a layer definition with its costs
// (option_table.h).

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_MEMORY_PRICE_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_MEMORY_PRICE_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace parplan {

// Cost of one option: seconds (or any unit of time) and bytes.
struct TimeAndBytes {
  double time = 0.0;
  double bytes = 0.0;
};

// Equal layers, each of which may choose any of the options.
struct FreeLayers {
  // Number of the layers, which may be a fraction.
  double layer_count = 0.0;
  std::vector<TimeAndBytes> options;
};

// The result of the relaxation.
struct MemoryPrice {
  // Time per byte at which the bound is largest; not negative.
  double price = 0.0;
  // Lower bound of the time of all choices that fit, up to rounding; infinite if none fits, also
  // because some layers have no options.
  double bound = 0.0;
};

// Returns ranges (least, largest) of transient memory, in bytes, those of the largest first, that
// together contain all `transients`, of which both ends of each are some; none if there are none.
// The ends of a range differ by a small part of `budget` only, so that assignments whose largest
// transient is in one range have nearly the same room. REQUIRES: budget >= 0, and aborts otherwise.
std::vector<std::pair<int64_t, int64_t>> TransientRanges(std::vector<int64_t> transients,
                                                         int64_t budget);

// Returns the price at which the sum, over all layers, of the least (time + price * bytes), less
// price * room, is largest, where `room` is in bytes. It is 0 if the fastest choices fit, or if
// none do; otherwise, up to rounding, choices that fit cost as much at it as choices that do not.
// Takes a few passes over the options.
MemoryPrice BestMemoryPrice(const std::vector<FreeLayers>& layers, double room);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_MEMORY_PRICE_H_
