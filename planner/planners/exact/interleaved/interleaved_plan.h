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

// Returns whether the space allows these options on neighbouring layers, those on either side of a
// boundary between stages included. Memory is not asked.
//
//  options   [definition] index, from 0, into the table's options; not read for definitions without
//            layers
bool NeighboursAgree(const PipelineSetting& setting, const std::vector<int>& options);

// Returns the plan with these options. Whether it is in the space, fits or has too many passes is
// not asked.
//
//  layer_counts   [virtual stage], all layers of the model; a multiple of the pipeline degree.
//                 Not checked.
//  options        [definition] as in `NeighboursAgree`
//  group_size     `Plan::micro_batch_group_size`, 0 for as many as the pipeline degree
Plan InterleavedPlan(const PipelineSetting& setting, const std::vector<int>& layer_counts,
                     const std::vector<int>& options, int64_t group_size);

// Returns the plan that recomputes the first `count` layers of each virtual stage that can be
// recomputed, or all of them if there are fewer. Its groups are as large as the pipeline degree.
// REQUIRES, unchecked: `layer_counts` as above; `choice` was made from the table of `setting`.
Plan InterleavedBlockPlan(const PipelineSetting& setting, const std::vector<int>& layer_counts,
                          const BlockChoice& choice, int count);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_PLAN_H_
