// The walks of Galvatron-BMW from balanced memory to balanced time, for one pipeline degree, one
// number of micro-batches and one batch. `galvatron-bmw` searches with them; `planctl explain`
// shows them.
//
// Words (docs/glossary.md): a candidate is all plans of one batch size, pipeline degree, number of
// micro-batches and schedule; a partition is the number of layers of each stage; a unit is one or
// more consecutive layers that are solved as one (galvatron_tables.h).

#ifndef PARPLAN_PLANNER_PLANNERS_GALVATRON_BMW_WALK_H_
#define PARPLAN_PLANNER_PLANNERS_GALVATRON_BMW_WALK_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"
#include "planner/planners/galvatron/bi_objective.h"
#include "planner/planners/galvatron/galvatron_stages.h"

namespace parplan {

// The memory of a layer under which p_m is balanced. No text at hand says which it is; all are
// tried (docs/papers.md 2.6).
enum class MemoryMeasure {
  kFastest,            // that of the fastest strategy, which stages use where memory suffices
  kNothingRecomputed,  // the least over strategies that recompute nothing
  kLeast,              // the least over all strategies, which stages come to where memory is tight
};
// Returns `fastest`, `nothing_recomputed` or `least`.
absl::string_view MeasureName(MemoryMeasure measure);

// Returns a partition with as many transformer units in each stage (`EvenSplit` of
// stage_balance.h). REQUIRES: `tables.usable()`; it aborts if there are fewer units than stages.
Partition EvenUnits(const GalvatronTables& tables);

// States after which a walk adjusts nothing more, so that a search of many layers has time for its
// other candidates. `parplan-study papers --section long-walks` tries smaller and larger limits
// (docs/measurements/papers.md, *Where a walk ends*): no walk of 32 or 48 layers comes to this one.
inline constexpr int64_t kMaxWalkStates = int64_t{1} << 23;

// Walks under each measure that differs and has a partition, and calls `on_step` with each
// partition and, if all its stages fit, their solutions [stage], which live as long as `stages`. If
// one does not fit (the step has no figures), the list means nothing. Ends if `on_step` returns
// false. After `max_state_count` states in all nothing is adjusted any more (`WalkEnd::kStopped`);
// both ends of each walk are still visited. Calls `on_end`, if it is given, behind the last step of
// each walk, also of one that `on_step` ended. Both are called on this thread. REQUIRES: at least
// two stages, which is not checked.
void WalkPartitions(const GalvatronTables& tables, GalvatronStages& stages,
                    const std::function<bool(MemoryMeasure, const AdjustmentStep&,
                                             const std::vector<const GalvatronStage*>&)>& on_step,
                    const std::function<void(WalkEnd)>& on_end = nullptr,
                    int64_t max_state_count = kMaxWalkStates);

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
  // Whether the strategies of the table may recompute.
  bool with_recompute = false;
  MemoryMeasure measure = MemoryMeasure::kLeast;
  std::vector<ExplainedStep> steps;
  // `kStopped` if the limit of states or those of the question ended it.
  WalkEnd end = WalkEnd::kNothingLeft;
};

// Returns the walks of `galvatron-bmw` for the batch, pipeline degree and micro-batch count of
// `plan`; none if it has one stage, the dimensions lack `uneven-stages`, or some layer has no
// strategy. `control` limits the work, of which it counts the states from 0 on, and
// `max_state_count` that of the walks with one table of strategies; `on_progress` is not called.
// Walks without recomputation come first. REQUIRES, unchecked: `plan` has one stage a device, its
// pipeline degree divides the devices of `problem`, and its micro-batch count its batch.
std::vector<ExplainedWalk> ExplainWalks(const PlanningProblem& problem, const CostModel& costs,
                                        const Plan& plan, const SearchControl& control,
                                        int64_t max_state_count = kMaxWalkStates);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_GALVATRON_BMW_WALK_H_
