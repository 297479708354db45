// Plans with block recomputation (`AllowsBlocks`): one strategy for all layers, and the first
// layers of each stage recomputed. Used by the searches of such plans (block_pipeline.h,
// block_interleaved.h).

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_BLOCK_CHOICE_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_BLOCK_CHOICE_H_

#include <vector>

#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/search/space/option_table.h"

namespace parplan {

// The options of the layers of such plans, whatever their partition and their number of recomputed
// layers. All options have the same layout place, so nothing is resharded within a plan.
struct BlockChoice {
  // [definition] index of the option without recomputation; -1 for definitions without layers.
  std::vector<int> whole;
  // [definition] index of the option that recomputes all of the layer; -1 for definitions whose
  // layers never are (`IsRecomputedInBlocks`).
  std::vector<int> recomputed;
};

// Lists the choices of the space. REQUIRES: `AllowsBlocks`; the table keeps all options.
std::vector<BlockChoice> BlockChoicesOf(const StrategySpace& space, const OptionTable& table);

// Returns the choices that no other dominates; of equal ones the first. One dominates another if
// none of its options costs more anywhere, messages included: then it has a plan as good for each
// of the other's. O(choices^2 * definitions).
std::vector<BlockChoice> UndominatedBlocks(const OptionTable& table,
                                           std::vector<BlockChoice> choices);

// Returns the options of a choice as a mask. Plans whose layers each have any of them include those
// of the choice.
OptionMask MaskOf(const OptionTable& table, const BlockChoice& choice);

// Returns [layer] the options of layers [first, end) as a stage that recomputes its first `count`
// layers that can be.
std::vector<int> BlockOptions(const PipelineSetting& setting, const BlockChoice& choice, int count,
                              int first_layer, int end_layer);

// Returns the number of layers of [first, end) that can be recomputed.
int BlockLayerCount(const PipelineSetting& setting, int first_layer, int end_layer);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_BLOCK_CHOICE_H_
