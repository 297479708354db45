// When a step ends, by playing the schedule. Written apart from
// planner/cost/pipeline_schedule.h, which it checks.

#ifndef PARPLAN_PLANNER_CHECK_SCHEDULE_SIMULATION_H_
#define PARPLAN_PLANNER_CHECK_SCHEDULE_SIMULATION_H_

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "planner/model/plan.h"

namespace parplan {

// A (virtual) stage as the simulation sees it.
struct SimulatedStage {
  Seconds forward;
  Seconds backward;
  // To the next stage and back from it, each way. Not used of the last stage.
  Seconds send;
  Seconds gradient_sync;
};

// Stages in the order of the model, stage j on device j mod P, and how they work;
// see `PipelineRules`.
struct SimulatedPipeline {
  Schedule schedule = kDefaultSchedule;
  int virtual_stage_count = 1;
  bool blocking_messages = false;
  bool early_gradient_sync = false;
  std::vector<SimulatedStage> stages;
};

// End of the step, gradient synchronisation included. Every device runs a program
// of passes and, with blocking messages, of exchanges, as Megatron-LM's
// schedules.py has them; a queue of events in the order of time moves them on.
//
// Crashes where a message doesn't find its receiver. O(stages * micro-batches) time.
Seconds SimulateStep(const SimulatedPipeline& pipeline, int64_t micro_batch_count);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_CHECK_SCHEDULE_SIMULATION_H_
