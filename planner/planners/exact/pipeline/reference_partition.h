// A partition close to the best one if memory is ignored. `MaskSearch` starts from it.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_REFERENCE_PARTITION_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_REFERENCE_PARTITION_H_

#include <vector>

#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/search/space/option_table.h"

namespace parplan {

// Returns the first layers of all stages, followed by the number of layers. Balanced by the least
// times of layers: even for GPipe, shrinking by 1 - 1/m from stage to stage for 1F1B
// (`SpreadStepBound`). The only partition if the space has just one; with more
// stages than layers there is none, and the result must not be used.
std::vector<int> ReferencePartition(const PipelineSetting& setting, const OptionMask& allowed);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_REFERENCE_PARTITION_H_
