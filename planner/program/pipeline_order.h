// The order in which a device of a pipeline does its passes: that of
// planner/cost/pipeline_schedule.h, which predicts it, said again for those who run it.

#ifndef PARPLAN_PLANNER_PROGRAM_PIPELINE_ORDER_H_
#define PARPLAN_PLANNER_PROGRAM_PIPELINE_ORDER_H_

#include <cstdint>
#include <vector>

#include "planner/model/plan.h"

namespace parplan {

struct PipelinePass {
  // Of the model: stage of the plan.
  int stage_index = 0;
  int64_t micro_batch = 0;
  bool is_backward = false;
  friend bool operator==(const PipelinePass&, const PipelinePass&) = default;
};

// Of device `device` of `device_count` in a row, each with `virtual_stage_count` stages.
// REQUIRES: with several virtual stages, the devices divide the micro-batches.
std::vector<PipelinePass> PassesOf(Schedule schedule, int device_count, int virtual_stage_count,
                                   int device, int64_t micro_batch_count);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PROGRAM_PIPELINE_ORDER_H_
