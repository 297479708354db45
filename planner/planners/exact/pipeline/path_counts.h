// Averages of paths through a pipeline, which bound its step by a sum over stages.
//
// The step is no shorter than any path of passes that wait for one another, so no shorter than
// their average under any weights. There is one path for each stage: through the stages in
// front, then as long as it can within its own stage and those behind, and back. In an average
// every stage counts some number of passes, which is the same for all partitions of the layers.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PATH_COUNTS_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PATH_COUNTS_H_

#include <vector>

#include "absl/types/span.h"
#include "planner/planners/exact/pipeline/pipeline_bound.h"

namespace parplan {

// The sum of passes and messages so often counted is no longer than the time until the last
// backward pass of stage 0 ends.
struct PathCounts {
  // [stage] its passes, both ways together.
  std::vector<double> passes;
  // [stage] the messages to the next stage and back; 0 of the last.
  std::vector<double> messages;
};

// What layers add to a bound in a stage, as a share of what they take both ways.
struct LayerRate {
  // For each pass that counts. Positive.
  double per_pass = 1.0;
  // Whatever counts. Not negative.
  double besides = 0.0;
};

// The average in which layers add as much in every stage, so that no partition wins by more of
// them in one stage and fewer in another; as far as no weight is negative.
//
//   rates   [stage]
//
// O(stages), a few times.
PathCounts BalancePaths(const SuffixRecurrence& recurrence, absl::Span<const LayerRate> rates);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PATH_COUNTS_H_
