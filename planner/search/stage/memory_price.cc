#include "planner/search/stage/memory_price.h"

#include <algorithm>

#include "base/check.h"
#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// The cheapest choices at a price.
struct Chosen {
  double time = 0.0;
  double bytes = 0.0;
  double Cost(double price) const { return time + price * bytes; }
};

Chosen Cheapest(const std::vector<FreeLayers>& layers, double price) {
  Chosen sum;
  for (const FreeLayers& kind : layers) {
    double least = kInfinity;
    const TimeAndBytes* best = nullptr;
    for (const TimeAndBytes& option : kind.options) {
      const double cost = option.time + price * option.bytes;
      if (cost < least || (cost == least && option.bytes < best->bytes)) {
        least = cost;
        best = &option;
      }
    }
    if (best == nullptr) return {kInfinity, 0.0};
    sum.time += best->time * kind.layer_count;
    sum.bytes += best->bytes * kind.layer_count;
  }
  return sum;
}

Chosen Smallest(const std::vector<FreeLayers>& layers) {
  Chosen sum;
  for (const FreeLayers& kind : layers) {
    const TimeAndBytes* best = nullptr;
    for (const TimeAndBytes& option : kind.options) {
      if (best == nullptr || option.bytes < best->bytes ||
          (option.bytes == best->bytes && option.time < best->time)) {
        best = &option;
      }
    }
    if (best == nullptr) return {kInfinity, kInfinity};
    sum.time += best->time * kind.layer_count;
    sum.bytes += best->bytes * kind.layer_count;
  }
  return sum;
}

}  // namespace

std::vector<std::pair<int64_t, int64_t>> TransientRanges(std::vector<int64_t> transients,
                                                         int64_t budget) {
  // A range spans at most this fraction of the budget. More ranges give tighter bounds in more
  // time; not measured for other numbers.
  constexpr int64_t kRangesOfABudget = 64;
  // Below it no range would contain its own largest transient.
  PARPLAN_CHECK(budget >= 0);
  std::sort(transients.begin(), transients.end());
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (auto last = transients.rbegin(); last != transients.rend();) {
    auto first = last;
    while (first != transients.rend() && *last - *first <= budget / kRangesOfABudget) ++first;
    ranges.emplace_back(*(first - 1), *last);
    last = first;
  }
  return ranges;
}

MemoryPrice BestMemoryPrice(const std::vector<FreeLayers>& layers, double room) {
  Chosen beyond = Cheapest(layers, 0.0);
  if (beyond.bytes <= room) return {0.0, beyond.time};
  Chosen within = Smallest(layers);
  if (within.bytes > room) return {0.0, kInfinity};
  // In each round the two are neighbours on a convex hull of fewer choices, so few rounds are
  // needed; the limit only guards against rounding.
  constexpr int kMaxRounds = 64;
  MemoryPrice best = {0.0, beyond.time};
  for (int round = 0; round < kMaxRounds && within.time > beyond.time; ++round) {
    const double price = (within.time - beyond.time) / (beyond.bytes - within.bytes);
    const Chosen middle = Cheapest(layers, price);
    const double bound = middle.Cost(price) - price * room;
    if (bound > best.bound) best = {price, bound};
    if (middle.Cost(price) >= within.Cost(price) * (1.0 - 1e-14)) break;
    (middle.bytes <= room ? within : beyond) = middle;
  }
  return best;
}

}  // namespace parplan
