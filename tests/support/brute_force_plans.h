// The best plan of the declared space, and the least memory any plan needs, by looking
// at all plans: the judge of the exact search. Shares nothing with planner/search.

#ifndef PARPLAN_TESTS_SUPPORT_BRUTE_FORCE_PLANS_H_
#define PARPLAN_TESTS_SUPPORT_BRUTE_FORCE_PLANS_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"
#include "tests/support/brute_force_space.h"

namespace parplan {

// Returns the step time divided by the batch size.
inline Seconds TimePerSample(const Plan& plan, const Prediction& prediction) {
  return prediction.step / static_cast<double>(plan.global_batch_size);
}

struct BruteForceAnswer {
  // The best plan that fits, by `IsBetterPlan`; where `EveryPlan` did not look, of plans
  // equally fast any.
  std::optional<PredictedPlan> best;
  // The least usable memory with which some plan fits; `Bytes::Max()` without any plan.
  Bytes smallest_usable_memory = Bytes::Max();
  // Plans evaluated.
  int64_t plan_count = 0;
  // Only of `EveryPlan`: time a sample and upper bound of the memory of the plans that
  // fit of which none is better in both, ascending by time.
  std::vector<std::pair<Seconds, Bytes>> front;
};

// The best plan that fits of each shape that has any, and what it needs, by looking at every
// plan.
std::vector<std::pair<PlanShape, PredictedPlan>> BestOfEveryShape(const PlanningProblem& problem,
                                                                  const CostModel& costs);

// Every plan, one after the other: valid by `CheckPlanStructure`, scored by
// `PlanEvaluator`, compared by `IsBetterPlan`.
BruteForceAnswer EveryPlan(const PlanningProblem& problem, const CostModel& costs);

// Returns the same answer sooner. A stage is grown layer by layer. Of two beginnings that the rest
// cannot distinguish, the one that is nowhere better is dropped, since time and memory are monotone
// in those of each layer. Stages are then combined in every way that is not slower than the best
// plan by sums alone, and each combination is simulated by `ScheduleEvaluator`. Interleaved plans
// are evaluated one by one.
//
// Crashes if the plan it found is not the one that `PlanEvaluator` reports.
BruteForceAnswer EveryStage(const PlanningProblem& problem, const CostModel& costs);

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_BRUTE_FORCE_PLANS_H_
