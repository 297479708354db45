// When a step ends, by playing the schedule. Written apart from
// planner/cost/pipeline_schedule.h, which it checks.

#ifndef PARPLAN_PLANNER_CHECK_SCHEDULE_SIMULATION_H_
#define PARPLAN_PLANNER_CHECK_SCHEDULE_SIMULATION_H_

#include <cstdint>
#include <vector>

#include "planner/base/units.h"

namespace parplan {

// A stage as the simulation sees it.
struct SimulatedStage {
  Seconds forward;
  Seconds backward;
  // To the next stage and back from it, each way.
  Seconds send;
  Seconds gradient_sync;
  // Runs forward as long as fewer micro-batches than this are in flight and
  // any is left, else backward.
  int64_t most_in_flight = 1;
};

// End of the step, gradient synchronisation included.
Seconds SimulateStep(const std::vector<SimulatedStage>& stages, int64_t micro_batch_count);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_CHECK_SCHEDULE_SIMULATION_H_
