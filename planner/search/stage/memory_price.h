// What a byte of memory is worth: the Lagrangian relaxation of a budget that layers share.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_MEMORY_PRICE_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_MEMORY_PRICE_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace parplan {

struct TimeAndBytes {
  double time = 0.0;
  double bytes = 0.0;
};

// Layers that are free to choose, each one of the options.
struct FreeLayers {
  double layer_count = 0.0;
  std::vector<TimeAndBytes> options;
};

struct MemoryPrice {
  // Time a byte is worth at the best bound; not negative.
  double price = 0.0;
  // No choices that fit take less, up to rounding; infinite where none fit.
  double bound = 0.0;
};

// Ranges of transient memory, from the largest on, that together have all `transients`.
// The ends of a range differ by less than a small part of `budget`, so that those with a
// largest transient in it have about the same room.
std::vector<std::pair<int64_t, int64_t>> TransientRanges(std::vector<int64_t> transients,
                                                         int64_t budget);

// The price at which sum (time + price * bytes) - price * room is largest. It is where
// choices that fit and choices that do not cost the same. A handful of passes over the
// options.
MemoryPrice BestMemoryPrice(const std::vector<FreeLayers>& layers, double room);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_MEMORY_PRICE_H_
