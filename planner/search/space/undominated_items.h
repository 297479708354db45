// Finds those of many items that no other dominates.

#ifndef PARPLAN_PLANNER_SEARCH_SPACE_UNDOMINATED_ITEMS_H_
#define PARPLAN_PLANNER_SEARCH_SPACE_UNDOMINATED_ITEMS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <numeric>
#include <tuple>
#include <vector>

namespace parplan {

// Returns whether no element of `a` is larger than that of `b`.
template <size_t n>
bool IsNowhereLarger(const std::array<double, n>& a, const std::array<double, n>& b) {
  for (size_t k = 0; k < n; ++k) {
    if (a[k] > b[k]) return false;
  }
  return true;
}

// Returns the indices, ascending, of the items that no other dominates; of items that dominate each
// other the first. If `goes_on`, which is asked for each item with the number of items it may be
// compared with, returns false, there are none. Time: the square of the number of items that no
// other dominates, in the worst case, nearly all of it spent on costs.
//
//   costs       [item] numbers, none NaN, of which an item has none larger than those of an item
//               that it dominates
//   dominates   whether the first item dominates the second; transitive. Asked only of items of
//               which the first has no larger number.
template <size_t n, typename Dominates>
std::vector<int> UndominatedItems(const std::vector<std::array<double, n>>& costs,
                                  const Dominates& dominates,
                                  const std::function<bool(size_t)>& goes_on = nullptr) {
  // In this order an item comes after all that dominate it, but for those of equal costs.
  std::vector<int> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&costs](int a, int b) { return std::tie(costs[a], a) < std::tie(costs[b], b); });
  std::vector<int> kept;
  for (const int item : order) {
    if (goes_on && !goes_on(kept.size() + 1)) return {};
    if (std::any_of(kept.begin(), kept.end(), [&](int other) {
          return IsNowhereLarger(costs[other], costs[item]) && dominates(other, item);
        })) {
      continue;
    }
    const auto equal = std::find_if(kept.begin(), kept.end(),
                                    [&](int other) { return costs[other] == costs[item]; });
    kept.erase(std::remove_if(equal, kept.end(), [&](int other) { return dominates(item, other); }),
               kept.end());
    kept.push_back(item);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_SPACE_UNDOMINATED_ITEMS_H_
