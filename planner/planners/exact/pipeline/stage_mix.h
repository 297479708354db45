// A good way to run a stage in no time, to have a plan before the best one is known.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_STAGE_MIX_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_STAGE_MIX_H_

#include <optional>

#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/search/stage/stage_front.h"

namespace parplan {

// Layers [first, end) as stage `stage`: at the price of memory at which the best options
// just fit, each definition has a fast and a small one; as many layers as fit take the fast
// one. Near the best where neither moves activations. Nothing where even the small ones do
// not fit together, or may not follow each other. O(definitions * options).
std::optional<StageChoice> MixStage(const PipelineSetting& setting, const OptionMask& allowed,
                                    int stage, int first_layer, int end_layer);

// Sets the times of a choice from its options, summed up as `PlanEvaluator` does: layers of
// one option together.
void SumTimes(const OptionTable& table, absl::Span<const DefinitionRun> runs, StageChoice& choice);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_STAGE_MIX_H_
