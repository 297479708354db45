// The measurements that the strategies of a problem can need: what a cost model looks for in
// profiles, and what is missing if it is not there. `CostModel::Create` calls it.

#ifndef PARPLAN_PLANNER_COST_PROBLEM_NEEDS_H_
#define PARPLAN_PLANNER_COST_PROBLEM_NEEDS_H_

#include <set>
#include <vector>

#include "planner/cost/collective_time.h"
#include "planner/model/planning_problem.h"

namespace parplan {

// The measurements that strategies of a problem can need, on any of its groups.
struct ProblemNeeds {
  std::vector<int> tensor_parallel_degrees;
  std::set<GroupShape> tensor_groups;
  std::set<GroupShape> data_groups;
  std::set<GroupShape> pipeline_pairs;
  // All ranks of a stage.
  std::set<GroupShape> stage_groups;
  // Groups that share states, and those between them; empty without hybrid sharding.
  std::set<GroupShape> hybrid_groups;
};

// Returns the needs. Groups of ranks that share tokens are left out, because only data sheets price
// them. O(divisors of the number of devices, squared).
ProblemNeeds NeedsOf(const PlanningProblem& problem);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_PROBLEM_NEEDS_H_
