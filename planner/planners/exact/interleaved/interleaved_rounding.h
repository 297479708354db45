// Interleaved plans of models with too many definitions to choose for one by one.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_ROUNDING_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_ROUNDING_H_

#include <vector>

#include "planner/planners/exact/interleaved/interleaved_choices.h"
#include "planner/planners/exact/pipeline/layer_menus.h"

namespace parplan {

// Over all partitions with one mask, the most promising first: the bound by prices of memory,
// and plans that choose what is cheapest at them, of one layout each, since prices know of no
// moves between layouts. Bounds of what may be better go to `finds.least_unseen`.
void RoundInterleaved(const PipelineSetting& setting, const OptionMask& mask,
                      const MaskedOptions& masked, const LayerMenus& menus,
                      const std::vector<InterleavedPartition>& partitions, PlanEvaluator& evaluator,
                      InterleavedFinds& finds, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_ROUNDING_H_
