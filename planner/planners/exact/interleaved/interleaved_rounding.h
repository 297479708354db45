// Interleaved plans of models with too many definitions to enumerate their options.
// `SearchInterleaved` calls it.
//
// Words (docs/glossary.md): a mask is the set of options that a plan may use; a menu is the costs
// of a layer under its options, without those that are nowhere better than others; a price is the
// Lagrangian multiplier of memory, in seconds per byte; a partition is the number of layers of each
// stage.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_ROUNDING_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_ROUNDING_H_

#include <vector>

#include "planner/planners/exact/interleaved/interleaved_choices.h"
#include "planner/planners/exact/pipeline/layer_menus.h"

namespace parplan {

// Searches all partitions under one mask, most promising first: computes the bound from memory
// prices and tries plans that use what is cheapest at the prices, each plan in one layout, because
// prices do not know resharding: for each partition at most one plan that fits in each of the two
// cheapest layouts. Plans that are found go to `finds.plans`, and the bounds of what may still be
// better to `finds.least_unseen`, which is 0 if `meter` stops before all partitions are bounded. A
// partition that was tried still has its bound there: no plan is proved the best. The other limits
// of `finds` are neither asked nor counted. Partitions with too many passes (`FitsPassLimit`) are
// passed over. Groups are as large as the pipeline degree. REQUIRES, unchecked: `masked` and
// `menus` are those of `mask`, and `masked.usable`; `setting` is one of 1F1B, and its micro-batches
// are a multiple of the pipeline degree; `evaluator` is one for its problem.
void RoundInterleaved(const PipelineSetting& setting, const OptionMask& mask,
                      const MaskedOptions& masked, const LayerMenus& menus,
                      const std::vector<InterleavedPartition>& partitions, PlanEvaluator& evaluator,
                      InterleavedFinds& finds, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_ROUNDING_H_
