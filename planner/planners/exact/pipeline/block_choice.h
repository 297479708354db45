// Plans with block recomputation (`AllowsBlocks`): one strategy for all layers, except for the
// fields that `BlockChoice` names, and the first layers of each stage recomputed. Used by the
// searches of such plans (block_search.h, block_pipeline.h, ../interleaved/block_stages.h,
// ../interleaved/interleaved_plan.h, ../memory/smallest_memory.h).
//
// Words (docs/glossary.md): a mask is the set of options that a plan may use; an option is a
// strategy of a layer definition with its costs (option_table.h); a definition is the sizes of a
// layer, the same for equal layers.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_BLOCK_CHOICE_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_BLOCK_CHOICE_H_

#include <vector>

#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/search/space/option_table.h"

namespace parplan {

// The options of the layers of such plans, whatever their partition and their number of recomputed
// layers. All options have the same tensor-, data- and context-parallel degrees, rank order,
// sharding, kind of context parallelism and exchange degree. Definitions may differ in
// sequence parallelism and in the degrees of experts, as far as `StrategySpace::GoTogether` allows.
// Layers therefore reshard nothing, unless the runtime exchanges layouts where sequence parallelism
// begins or ends. Indices are positions in `OptionTable::options` of the table that the choice was
// made from, and are valid for that table only.
struct BlockChoice {
  // [definition] index of the option without recomputation; -1 for definitions without layers.
  std::vector<int> whole;
  // [definition] index of the option that recomputes all of the layer; -1 for definitions whose
  // layers never are (`IsRecomputedInBlocks`).
  std::vector<int> recomputed;
};

// Lists the choices of the space in which some definition is recomputed. REQUIRES, unchecked:
// `AllowsBlocks`; the table is usable and keeps all options (`OptionTable::Keeps::kAll`).
std::vector<BlockChoice> BlockChoicesOf(const StrategySpace& space, const OptionTable& table);

// Returns the choices that no other dominates, in the order in which they were given; of equal ones
// the first. One dominates another if none of its options costs more anywhere, messages included:
// then it has a plan as good for each of the other's. O(choices^2 * definitions). REQUIRES,
// unchecked: all `choices` come from one call of `BlockChoicesOf` with `table`.
std::vector<BlockChoice> UndominatedBlocks(const OptionTable& table,
                                           std::vector<BlockChoice> choices);

// Returns the options of a choice as a mask. Plans whose layers each have any of them include those
// of the choice.
OptionMask MaskOf(const OptionTable& table, const BlockChoice& choice);

// Returns the options of layers [first, end), one for each, as a stage that recomputes the first
// `count` of those layers that can be recomputed, or all of them if there are fewer. REQUIRES,
// unchecked: `choice` was made from `setting.table()`.
std::vector<int> BlockOptions(const PipelineSetting& setting, const BlockChoice& choice, int count,
                              int first_layer, int end_layer);

// Returns the number of layers of [first, end) that can be recomputed.
int BlockLayerCount(const PipelineSetting& setting, int first_layer, int end_layer);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_BLOCK_CHOICE_H_
