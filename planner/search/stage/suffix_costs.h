// Lower bounds of the cost of the layers after a run of a stage, by the layout the run ends with.
// `ToTicks` (tick_stage.h) and `CasesOf` (front_case.h) call them.
//
// Words (docs/glossary.md): a cut is a linear inequality on the times of a stage that every wanted
// plan satisfies; half a resharding is the part that one of the two passes takes; options have one
// layout if activations move between them at no cost; an option is a strategy of a layer definition
// with its costs (option_table.h).

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_SUFFIX_COSTS_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_SUFFIX_COSTS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "planner/search/stage/front_case.h"

namespace parplan {

// Returns [from * layout_count + to] the least half resharding, in ticks, between two of `layouts`,
// possibly through others of them: 0 from one of `layouts` to itself; infinite if no way leads
// there, or if either is not in `layouts`. `half_resharding` is `TickStage::half_resharding` of a
// kind of layers, and `layouts` are the layouts of its options, in any order and possibly several
// times. O(layout_count^2 + places^3): layouts between which moves take no time either way are one
// place, because a space may have a layout for each sharding level.
std::vector<double> ShortestHalfResharding(absl::Span<const int64_t> half_resharding,
                                           int layout_count, absl::Span<const int> layouts);

// Sets `suffix_cost_of_layout` from `options`, `cuts` and `suffix`, and from `runs`,
// `half_resharding` and `shortest_half_resharding` of the case's stage. REQUIRES, unchecked: all of
// these are set. Solves a shortest path from run to run: a run of several layers begins with one
// layout, moves to another for the layers between, and ends with a third. O(cuts * runs *
// layouts^2).
void AddSuffixCostsByLayout(FrontCase& front_case);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_SUFFIX_COSTS_H_
