// The best plan of one pipeline degree, micro-batch count and schedule, one stage a
// device.
//
// A lower bound first, from the graph of partitions (partition_graph.h). Then for steps a
// little longer than that, and if there is no plan again for longer ones, all stages that
// may be part of such a plan are solved (front_cache.h) and joined (suffix_search.h). The
// first plan found is the best by the bound of schedules; it is simulated, and where that
// takes longer than the bound, all plans that may be faster are.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PIPELINE_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PIPELINE_SEARCH_H_

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/option_table.h"
#include "planner/search/space/strategy_space.h"

namespace parplan {

// A part of the space.
struct PipelineCandidate {
  int64_t global_batch_size = 1;
  int64_t micro_batch_count = 1;
  int pipeline_parallel_degree = 1;
  // 1F1B or GPipe.
  Schedule schedule = kDefaultSchedule;
};

struct PipelineOutcome {
  // Plans found, best first by `IsBetterPlan`, at most as many as wanted, distinct
  // (`AreAlike`).
  std::vector<PredictedPlan> plans;
  // No plan of the candidate has a shorter step than this, or than `most`, whichever is
  // less. Infinite where there is none at all.
  Seconds bound;
  // The best plan below `most` was found, or there is none.
  bool is_exact = true;
};

// Plans whose step is below `most` (infinite: any), the best `wanted` of them: the first is
// the best there is, others are those met on the way.
// REQUIRES: `table` is usable and made for the candidate's degree and micro-batch.
PipelineOutcome SearchPipeline(const StrategySpace& space, const CostModel& costs,
                               const OptionTable& table, const PipelineCandidate& candidate,
                               Seconds most, int wanted, SearchMeter& meter);

// The same with few states: for a good plan, and a bound that is better than before.
// REQUIRES: fewer than `kManyLayers` layers (priced_search.h).
PipelineOutcome TryPipeline(const StrategySpace& space, const CostModel& costs,
                            const OptionTable& table, const PipelineCandidate& candidate,
                            Seconds most, int wanted, SearchMeter& meter);

// The first of its lower bounds alone: no plan has a shorter step than this or `most`,
// whichever is less; infinite where memory suffices for none.
Seconds PipelineBound(const StrategySpace& space, const CostModel& costs, const OptionTable& table,
                      const PipelineCandidate& candidate, Seconds most, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PIPELINE_SEARCH_H_
