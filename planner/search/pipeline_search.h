// The best plan of one pipeline degree, micro-batch count and schedule, one stage a
// device.

#ifndef PARPLAN_PLANNER_SEARCH_PIPELINE_SEARCH_H_
#define PARPLAN_PLANNER_SEARCH_PIPELINE_SEARCH_H_

#include <cstdint>
#include <vector>

#include "planner/base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"
#include "planner/search/option_table.h"
#include "planner/search/search_meter.h"
#include "planner/search/strategy_space.h"

namespace parplan {

// A part of the space.
struct PipelineCandidate {
  int64_t global_batch_size = 1;
  int64_t micro_batch_count = 1;
  int pipeline_parallel_degree = 1;
  // 1F1B or GPipe.
  Schedule schedule = Schedule::kOneForwardOneBackward;
};

struct PipelineOutcome {
  // Plans found, best first by `IsBetterPlan`, at most as many as wanted, distinct.
  std::vector<PredictedPlan> plans;
  // No plan of the candidate has a shorter step than this, or than `most`, whichever is
  // less.
  Seconds bound;
  bool is_exact = true;
};

// Plans whose step is below `most` (infinite: any), the best `wanted` of them.
// REQUIRES: `table` is usable and made for the candidate's degree and micro-batch.
PipelineOutcome SearchPipeline(const StrategySpace& space, const CostModel& costs,
                               const OptionTable& table, const PipelineCandidate& candidate,
                               Seconds most, int wanted, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_PIPELINE_SEARCH_H_
