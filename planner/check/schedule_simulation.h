// The end of a step, found by playing the schedule. It shares no code with
// planner/cost/pipeline_schedule.h or planner/model/pass_order.h, which it checks. `CheckPlan`
// calls it.

#ifndef PARPLAN_PLANNER_CHECK_SCHEDULE_SIMULATION_H_
#define PARPLAN_PLANNER_CHECK_SCHEDULE_SIMULATION_H_

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "planner/model/plan.h"

namespace parplan {

// The times of one (virtual) stage, with the meaning of `StageTimes`
// (planner/cost/pipeline_schedule.h).
struct SimulatedStage {
  Seconds forward;
  Seconds backward;
  // Time of a message to the next stage, and of one back from it. Ignored for the last stage.
  Seconds send;
  // Once per step, after the stage's last backward pass.
  Seconds gradient_sync;
  // Part of `backward` in a pass of its own, if the schedule splits backward passes.
  Seconds backward_weights = {};
};

// The stages in the order of the model, stage j on device j mod P, and the rules they follow; see
// `PipelineRules`.
struct SimulatedPipeline {
  Schedule schedule = kDefaultSchedule;
  // Stages on each device, at least 1.
  int virtual_stage_count = 1;
  // Micro-batches of a group, at least as many as devices; 0: as many as devices. Ignored with one
  // stage on each device.
  int64_t micro_batch_group_size = 0;
  bool blocking_messages = false;
  bool serial_messages = false;
  bool early_gradient_sync = false;
  std::vector<SimulatedStage> stages;
};

// Returns the end of the step, gradient synchronisation included. Every device runs a program of
// passes and, with blocking messages, of exchanges, in the order of Megatron-LM's schedules.py; a
// queue of events ordered by time advances them. ZB-H1 is played as its paper draws it: 1F1B in
// which the weight pass of a micro-batch waits until as many backward passes as there are devices
// in front have followed its own.
//
// REQUIRES: at least one stage, the virtual stages per device divide their number, and
// micro_batch_count >= 1; aborts otherwise. With several stages on each device, 1F1B follows the
// interleaved order. Aborts too if a message does not find its receiver, which would be a mistake
// of the simulation. Time is O(stages * micro-batches * log devices).
Seconds SimulateStep(const SimulatedPipeline& pipeline, int64_t micro_batch_count);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_CHECK_SCHEDULE_SIMULATION_H_
