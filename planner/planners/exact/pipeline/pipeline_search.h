// The best plan of one pipeline degree, micro-batch count and schedule without virtual stages.
//
// It starts with a lower bound from the graph of partitions (partition_graph.h). Then, for a window
// of step times above the bound, and for wider windows if there is no plan, all stages that can be
// part of such a plan are solved (front_cache.h) and joined (suffix_search.h). The first plan found
// is the best by the bound of the schedule; it is simulated, and if that takes longer than the
// bound, all plans that may be faster are simulated too. `BestFirstSearch` calls it, and
// `SteadyBound` calls `PipelineBound`.
//
// Words (docs/glossary.md): a cutoff is a time that a plan must stay below to be wanted; a meter
// counts states and says when a search must end (search_meter.h); a candidate is all plans of one
// batch size, pipeline degree, number of micro-batches and schedule.

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

// One pipeline degree, schedule and micro-batch count at one batch size. The micro-batch count
// divides the batch size, and the pipeline degree divides the number of devices; nothing checks it.
struct PipelineCandidate {
  int64_t global_batch_size = 1;
  int64_t micro_batch_count = 1;
  int pipeline_parallel_degree = 1;
  // 1F1B or GPipe here, else the functions below abort; interleaved for `SearchInterleaved`. ZB-H1
  // is searched as 1F1B with whole backward passes: plans are predicted as they are, and bounds are
  // those of 1F1B, but for infinite ones.
  Schedule schedule = kDefaultSchedule;
  // `Plan::micro_batch_group_size`, 0 for as many as the pipeline degree; only
  // `SmallestInterleavedMemory` reads it.
  int64_t micro_batch_group_size = 0;
};

// The result of searching one candidate.
struct PipelineOutcome {
  // Plans found, best first by `IsBetterPlan`, at most as many as wanted, no two alike
  // (`AreAlike`).
  std::vector<PredictedPlan> plans;
  // Lower bound of the step of the candidate's plans, overhead included, or `cutoff` if that is
  // less. Infinite if it is proved that there is no plan at all; of interleaved plans only if
  // `cutoff` is infinite, too. At most `CostModel::step_overhead` if nothing is proved.
  Seconds bound;
  // Whether the best plan below `cutoff` was found, or it is proved that there is none.
  bool is_exact = true;
};

// Searches the best `wanted` plans, at least 1, whose step, overhead included, is below `cutoff`
// (infinite: any): the first is the best there is if the outcome `is_exact`, the others are those
// met on the way. Plans fit the memory of the problem of `space`. It is not exact if `meter`, which
// counts states and says when to stop, or a limit of states ended a part, if plans fit except for
// memory that the allocator keeps, or if the model has `kManyLayers` layers or more, prices of
// memory (priced_search.h) leave a gap, and the layers are too many, or in too many runs, for a
// search by labels to close it. It runs on the calling thread and calls no observer. REQUIRES, here
// and below, unchecked: `table` is usable and made for the candidate's degree and micro-batch size.
PipelineOutcome SearchPipeline(const StrategySpace& space, const CostModel& costs,
                               const OptionTable& table, const PipelineCandidate& candidate,
                               Seconds cutoff, int wanted, SearchMeter& meter);

// Searches with few states, for a good plan and a better bound than `PipelineBound`. REQUIRES,
// unchecked: fewer than `kManyLayers` layers (priced_search.h).
PipelineOutcome TryPipeline(const StrategySpace& space, const CostModel& costs,
                            const OptionTable& table, const PipelineCandidate& candidate,
                            Seconds cutoff, int wanted, SearchMeter& meter);

// Searches a candidate that `TryPipeline` has searched with a cutoff no less, and with it this
// function is as good as `SearchPipeline`: only plans of one layout, which both look for first, are
// not sought again. REQUIRES, unchecked: as `TryPipeline`.
PipelineOutcome SearchTriedPipeline(const StrategySpace& space, const CostModel& costs,
                                    const OptionTable& table, const PipelineCandidate& candidate,
                                    Seconds cutoff, int wanted, SearchMeter& meter);

// Returns only the first lower bound of the search: no plan has a shorter step than this or
// `cutoff`, whichever is less; infinite if memory never suffices, and 0 if `meter` stopped. Both
// include the overhead. Does not depend on the batch size, and with more micro-batches than a plan
// may have it is a bound all the same.
Seconds PipelineBound(const StrategySpace& space, const CostModel& costs, const OptionTable& table,
                      const PipelineCandidate& candidate, Seconds cutoff, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PIPELINE_SEARCH_H_
