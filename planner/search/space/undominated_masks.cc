#include "planner/search/space/undominated_masks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "planner/search/space/option_costs.h"
#include "planner/search/space/undominated_items.h"

namespace parplan {
namespace {

// Operations that comparing two masks counts as: few are compared beyond the first of their costs.
// Rough.
constexpr int64_t kWorkOfComparison = 20;

// The masks of plans of a single layout, compared with one another.
class LayoutMasks {
 public:
  LayoutMasks(const OptionTable& table, size_t definition_count) : costs_(definition_count) {
    for (size_t definition = 0; definition < definition_count; ++definition) {
      const int index = static_cast<int>(definition);
      for (const StageOption& option : table.options(index)) {
        costs_[definition].push_back(CostsOfOption(table, index, option));
      }
    }
  }

  // Returns the masks that no other dominates; among equal ones the first. Some are missing once
  // `works` has returned false.
  std::vector<OptionLists> Undominated(std::vector<OptionLists> masks,
                                       const WorkCounter& works) const {
    std::vector<OptionCosts> least;
    least.reserve(masks.size());
    for (const OptionLists& mask : masks) least.push_back(LeastCosts(mask));
    const std::vector<int> kept = UndominatedItems(
        least, [&](int a, int b) { return Dominates(masks[a], masks[b]); },
        [&works](size_t count) {
          return !works || works(kWorkOfComparison * static_cast<int64_t>(count));
        });
    std::vector<OptionLists> undominated;
    undominated.reserve(kept.size());
    for (const int index : kept) undominated.push_back(std::move(masks[index]));
    return undominated;
  }

 private:
  // Returns for each cost the sum over the definitions of the least that an option of the mask
  // costs. A mask that dominates another one has no larger sum, since for the cheapest option of
  // the other one it has one that is nowhere worse; nor has it when the sums are rounded, because
  // the terms are added in the same order.
  OptionCosts LeastCosts(const OptionLists& mask) const {
    OptionCosts sums = {};
    for (size_t definition = 0; definition < mask.size(); ++definition) {
      if (mask[definition].empty()) continue;
      const std::vector<OptionCosts>& costs = costs_[definition];
      for (size_t k = 0; k < sums.size(); ++k) {
        double least = costs[mask[definition].front()][k];
        for (const int index : mask[definition]) least = std::min(least, costs[index][k]);
        sums[k] += least;
      }
    }
    return sums;
  }

  // Returns whether for each option of `b` one of `a` is nowhere worse.
  bool Dominates(const OptionLists& a, const OptionLists& b) const {
    for (size_t definition = 0; definition < a.size(); ++definition) {
      if (a[definition] == b[definition]) continue;
      const std::vector<OptionCosts>& costs = costs_[definition];
      for (const int i : b[definition]) {
        if (std::none_of(a[definition].begin(), a[definition].end(),
                         [&](int j) { return IsNowhereLarger(costs[j], costs[i]); })) {
          return false;
        }
      }
    }
    return true;
  }

  // [definition][option]
  std::vector<std::vector<OptionCosts>> costs_;
};

}  // namespace

std::vector<OptionLists> UndominatedMasks(const OptionTable& table, std::vector<OptionLists> masks,
                                          const WorkCounter& works) {
  if (masks.empty()) return masks;
  const LayoutMasks layout(table, masks.front().size());
  return layout.Undominated(std::move(masks), works);
}

}  // namespace parplan
