// Averages of critical paths through a pipeline, which bound its step by a sum over stages.
//
// The step is no shorter than any path of passes that wait for one another, so it is no shorter
// than their average under any weights. There is one path per stage: through the stages in front,
// then as long as possible within its own stage and those after it, and back. In an average every
// stage counts some number of passes, which is the same for all partitions of the layers. Used by
// `PricedPipeline`.
//
// Words (docs/glossary.md): a partition is the number of layers of each stage.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PATH_COUNTS_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PATH_COUNTS_H_

#include <vector>

#include "absl/types/span.h"
#include "planner/planners/exact/pipeline/pipeline_bound.h"

namespace parplan {

// Numbers of passes and messages, in an average path, whose total time is no longer than the time
// until the last backward pass of stage 0 ends.
struct PathCounts {
  // [stage] passes; the forward and the backward pass of a micro-batch count as one.
  std::vector<double> passes;
  // [stage] messages to the next stage; one there and one back count as one, so that it stands for
  // two send times. 0 for the last stage.
  std::vector<double> messages;
};

// The weight of a layer in a stage's bound, as a share of its forward and backward time.
struct LayerRate {
  // Weight per counted pass. Positive.
  double per_pass = 1.0;
  // Weight that does not depend on the count. Not negative.
  double besides = 0.0;
};

// Returns the average path in which a layer weighs the same in every stage, as far as no weight
// becomes negative. Then no partition gains by having more layers in one stage and fewer in
// another.
//
//  rates   [stage], one for each of the recurrence and at least one; not checked
//
// With one micro-batch every stage counts one pass, whatever the rates. O(stages), repeated a few
// times.
PathCounts BalancePaths(const SuffixRecurrence& recurrence, absl::Span<const LayerRate> rates);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PATH_COUNTS_H_
