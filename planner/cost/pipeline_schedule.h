// When every stage works on which micro-batch, and when the step ends.

#ifndef PARPLAN_PLANNER_COST_PIPELINE_SCHEDULE_H_
#define PARPLAN_PLANNER_COST_PIPELINE_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "planner/base/units.h"
#include "planner/model/plan.h"

namespace parplan {

// Times of one stage, per micro-batch.
struct StageTimes {
  Seconds forward;
  Seconds backward;
  // To the next stage (activations) and, on the way back, from it (gradients);
  // 0 for the last stage.
  Seconds send;
  // After the stage's last backward pass.
  Seconds gradient_sync;
};

// A stretch of work of one stage.
struct PipelineEvent {
  int stage_index = 0;
  int64_t micro_batch_index = 0;
  bool is_backward = false;
  Seconds start;
  Seconds end;
};

// When the step ends: the latest end of a stage's last backward pass and its
// gradient synchronisation. Exact recurrence over events: a forward pass
// starts when the stage is free and the previous stage's output has arrived; a
// backward pass likewise from behind; sending occupies no stage.
// O(stages * micro-batches) time and memory.
Seconds StepTime(Schedule schedule, absl::Span<const StageTimes> stages,
                 int64_t micro_batch_count);

// The same, with every event, sorted by stage and start.
std::vector<PipelineEvent> PipelineEvents(Schedule schedule, absl::Span<const StageTimes> stages,
                                          int64_t micro_batch_count);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_PIPELINE_SCHEDULE_H_
