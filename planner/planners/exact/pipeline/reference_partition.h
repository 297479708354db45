// A partition near the best one if memory did not count.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_REFERENCE_PARTITION_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_REFERENCE_PARTITION_H_

#include <vector>

#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/search/space/option_table.h"

namespace parplan {

// First layers of all stages, and the number of layers behind the last. By the least times
// of layers: even for GPipe, and for 1F1B shrinking by 1 - 1/m from stage to stage
// (`SpreadStepBound`). The only one where the space has one.
std::vector<int> ReferencePartition(const PipelineSetting& setting, const OptionMask& allowed);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_REFERENCE_PARTITION_H_
