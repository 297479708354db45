// Lower bounds of the layers after a run of a stage, by the layout the run ends with. `ToTicks` and
// `CasesOf` (front_case.h) call them.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_SUFFIX_COSTS_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_SUFFIX_COSTS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "planner/search/stage/front_case.h"

namespace parplan {

// Returns [from * layout_count + to] the least half resharding, in ticks, between two of `layouts`,
// possibly through others of them; infinite if no way leads there, and between other layouts.
// `half_resharding` is that of a kind of layers (`TickStage`), and `layouts`, in any order and
// possibly several times, those of its options. O(layout_count^2 + places^3), where layouts between
// which a move takes no time are one place: a space may have a layout for each sharding level.
std::vector<double> ShortestHalfResharding(absl::Span<const int64_t> half_resharding,
                                           int layout_count, absl::Span<const int> layouts);

// Sets `suffix_cost_of_layout` from options, cuts and `suffix`, and from the runs and resharding of
// the case's stage, all of which must be there. Solves a shortest path from run to
// run, with moves between runs and, within a run, from its first layout through the cheapest to its
// last. O(cuts * runs * layouts^2).
void AddSuffixCostsByLayout(FrontCase& front_case);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_SUFFIX_COSTS_H_
