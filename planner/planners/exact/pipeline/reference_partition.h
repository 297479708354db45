// A partition close to the best one if memory is ignored. `MaskSearch` starts from it.
//
// Words (docs/glossary.md): a partition is the number of layers of each stage.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_REFERENCE_PARTITION_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_REFERENCE_PARTITION_H_

#include <vector>

#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/search/space/option_table.h"

namespace parplan {

// Returns the first layer of each stage, which is 0 for the first stage, followed by the number of
// layers. Every stage has at least one layer, and its first layer is within the limits of `setting`
// (`least_first`, `largest_first`).
//
// Each stage gets about its share of the sum of the layers' least forward and backward times. The
// least is taken over the options in `allowed`; a layer without any counts as 0. An empty `allowed`
// allows all options. Shares are equal for GPipe and for one micro-batch; otherwise each is 1 - 1/m
// of the share of the stage before, where m is the number of micro-batches (`SpreadStepBound`).
//
// A space fixes all boundaries or none. If it fixes them (`setting.fixed_boundaries()`), they are
// returned unchanged, and `allowed` has no effect.
//
// If `setting.has_partition()` is false, the result is no partition and must not be used.
std::vector<int> ReferencePartition(const PipelineSetting& setting, const OptionMask& allowed);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_REFERENCE_PARTITION_H_
