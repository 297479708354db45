// Interleaved plans in which every definition has one strategy, but for block recomputation. Used
// by the searches of this folder and of the least memory. The plans are interleaved whatever the
// schedule of the setting.
//
// Words (docs/glossary.md): an option is a strategy of a layer definition with its costs
// (option_table.h); virtual stages are the several stages of one device; a definition is the sizes
// of a layer, the same for equal layers.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_PLAN_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_PLAN_H_

#include <cstdint>
#include <vector>

#include "planner/model/plan.h"
#include "planner/planners/exact/pipeline/block_choice.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"

namespace parplan {

// Returns whether the space allows these options on neighbouring layers.
//
//  options   [definition] index into the table's options; not read for definitions without layers
bool NeighboursAgree(const PipelineSetting& setting, const std::vector<int>& options);

// Returns the plan with these options.
//
//  layer_counts   [virtual stage], all layers of the model; a multiple of the pipeline degree
//  group_size     `Plan::micro_batch_group_size`
Plan InterleavedPlan(const PipelineSetting& setting, const std::vector<int>& layer_counts,
                     const std::vector<int>& options, int64_t group_size);

// Returns the plan that recomputes the first `count` layers of each virtual stage.
Plan InterleavedBlockPlan(const PipelineSetting& setting, const std::vector<int>& layer_counts,
                          const BlockChoice& choice, int count);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_PLAN_H_
