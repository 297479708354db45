// The best plan of one pipeline degree and one number of micro-batches. `SearchBaseline` calls it
// for each candidate.

#ifndef PARPLAN_PLANNER_PLANNERS_BASELINES_CANDIDATE_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_BASELINES_CANDIDATE_SEARCH_H_

#include <optional>

#include "base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"
#include "planner/planners/baselines/stage_tables.h"
#include "planner/search/base/search_meter.h"

namespace parplan {

// The outcome of one candidate.
struct CandidateOutcome {
  // Least usable memory of a device with which some plan of the candidate fits: as far as the
  // tables show, or, if nothing fits by them or a plan of theirs did not fit after all, as
  // predicted for the plan whose stages hold the least.
  Bytes smallest_usable_memory;
  // Lower bound of the step of its plans; infinite if none fits. Absent if nothing was proved, as
  // always with several stages of which some plan fits by the tables.
  std::optional<Seconds> proved_bound;
};

// Tries several partitions, unless rules, dimensions or target leave one: even, balanced by time,
// by memory and greedily by memory, and as balanced by time as memory allows; then moves layers
// between stages (partition_moves.h). Each stage is solved by itself for all its work in a step,
// which is the step time if there is one stage; with several, other weights of synchronisation are
// tried too. Replaces `best`, which may be empty and is a plan of the same problem, if a plan fits
// and is better (`IsBetterPlan`). Counts states on `meter`, and tries less once that has stopped.
// REQUIRES: `tables` are of `problem` and `costs`, which is not checked, and `tables.usable()`;
// aborts otherwise.
CandidateOutcome SearchCandidate(const PlanningProblem& problem, const CostModel& costs,
                                 const StageTables& tables, SearchMeter& meter,
                                 std::optional<PredictedPlan>& best);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_BASELINES_CANDIDATE_SEARCH_H_
