// Layouts as the baselines and the planners of the papers distinguish them. `StageTables` and
// `GalvatronTables` number theirs with it.

#ifndef PARPLAN_PLANNER_SEARCH_SPACE_LAYOUT_INDEX_H_
#define PARPLAN_PLANNER_SEARCH_SPACE_LAYOUT_INDEX_H_

#include <cstddef>
#include <vector>

#include "planner/model/strategy.h"
#include "planner/model/strategy_fields.h"

namespace parplan {

static_assert(kStrategyFieldCount == 13, "say whether the new field makes another layout");

// Returns the index of the layout of `strategy` in `layouts`, which has one strategy for each
// layout; appends `strategy` if its layout is new. A layout is tensor- and data-parallel degree and
// rank order: these planners do not split tokens or experts.
inline int LayoutIndex(const Strategy& strategy, std::vector<Strategy>& layouts) {
  for (size_t layout = 0; layout < layouts.size(); ++layout) {
    const Strategy& other = layouts[layout];
    if (other.tensor_parallel_degree == strategy.tensor_parallel_degree &&
        other.data_parallel_degree == strategy.data_parallel_degree &&
        other.rank_order == strategy.rank_order) {
      return static_cast<int>(layout);
    }
  }
  layouts.push_back(strategy);
  return static_cast<int>(layouts.size()) - 1;
}

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_SPACE_LAYOUT_INDEX_H_
