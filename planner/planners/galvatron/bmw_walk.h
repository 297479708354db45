// The walks of Galvatron-BMW from balanced memory to balanced time, for one pipeline degree, one
// number of micro-batches and one batch. `galvatron-bmw` searches with them; `planctl explain`
// shows them.

#ifndef PARPLAN_PLANNER_PLANNERS_GALVATRON_BMW_WALK_H_
#define PARPLAN_PLANNER_PLANNERS_GALVATRON_BMW_WALK_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"
#include "planner/planners/galvatron/bi_objective.h"
#include "planner/planners/galvatron/galvatron_stages.h"

namespace parplan {

// The memory of a layer under which p_m is balanced. No text at hand says which it is; both are
// tried (docs/papers.md 2.6).
enum class MemoryMeasure {
  kNothingRecomputed,  // the least over strategies that recompute nothing, which is what stages
                       // hold where memory suffices
  kLeast,              // the least over all strategies
};

// Returns a partition with as many transformer units in each stage (stage_balance.h).
Partition EvenUnits(const GalvatronTables& tables);

// States that a walk expands before it ends, so that models of many layers end. In the 120 cells of
// the papers' grid (`parplan-study papers --section grid`) 2^19, 2^21 and 2^25 give the same
// answers.
inline constexpr int64_t kMaxWalkStates = int64_t{1} << 23;

// Walks under each measure that differs and has a partition, and calls `on_step` with each
// partition and, if all its stages fit, their solutions [stage], which live as long as `stages`.
// Ends if `on_step` returns false, and a walk after `kMaxWalkStates` in all. Calls `on_end`, if it
// is given, behind the last step of each walk. REQUIRES at least two stages.
void WalkPartitions(const GalvatronTables& tables, GalvatronStages& stages,
                    const std::function<bool(MemoryMeasure, const AdjustmentStep&,
                                             const std::vector<const GalvatronStage*>&)>& on_step,
                    const std::function<void(WalkEnd)>& on_end = nullptr);

// Returns the degrees of balance of the stages of a predicted plan: of their work in a step and of
// their peaks.
BalanceDegrees DegreesOfPlan(const PredictedPlan& plan);

// One step of a walk, with what the plan of the partition does.
struct ExplainedStep {
  AdjustmentStep step;
  // [stage], where the partition counts units (galvatron_tables.h).
  std::vector<int> layer_counts;
  // Those of the plan below (`DegreesOfPlan`).
  std::optional<BalanceDegrees> degrees;
  // The plan and its prediction, which may exceed memory by what only the whole plan shows.
  std::optional<PredictedPlan> plan;
};

// The walk of one table of strategies under one measure.
struct ExplainedWalk {
  bool with_recompute = false;
  MemoryMeasure measure = MemoryMeasure::kLeast;
  std::vector<ExplainedStep> steps;
  // `kStopped` if `kMaxWalkStates` or the limits of the question ended it.
  WalkEnd end = WalkEnd::kNothingLeft;
};

// Returns the walks of `galvatron-bmw` for the batch, pipeline degree and micro-batch count of
// `plan`; none if it has one stage, or the rules leave one partition. `control` limits the work.
std::vector<ExplainedWalk> ExplainWalks(const PlanningProblem& problem, const CostModel& costs,
                                        const Plan& plan, const SearchControl& control);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_GALVATRON_BMW_WALK_H_
