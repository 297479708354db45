// The measurements that the strategies of a problem can need. A cost model looks for them in
// profiles, and names those that are in none as missing. `CostModel::Create` calls `NeedsOf`.

#ifndef PARPLAN_PLANNER_COST_PROBLEM_NEEDS_H_
#define PARPLAN_PLANNER_COST_PROBLEM_NEEDS_H_

#include <set>
#include <vector>

#include "planner/cost/collective_time.h"
#include "planner/model/planning_problem.h"

namespace parplan {

// The measurements that strategies of a problem can need, on any of its node groups. A `GroupShape`
// is a number of ranks and the distance between neighbours among them (collective_time.h). Groups
// have at least two ranks, so on one device all sets are empty.
struct ProblemNeeds {
  // Ascending, from 1.
  std::vector<int> tensor_parallel_degrees;
  std::set<GroupShape> tensor_groups;
  // Groups of ranks with the same parameters, which add up their gradients.
  std::set<GroupShape> data_groups;
  // Pairs of ranks of neighbouring stages.
  std::set<GroupShape> pipeline_pairs;
  // All ranks of a stage.
  std::set<GroupShape> stage_groups;
  // The parts of data groups within which hybrid sharding divides states, and the groups of ranks
  // of these parts that have equal states. Empty if the problem lacks that dimension, its hardware,
  // or the permission to estimate: only data sheets price what was not measured of them.
  std::set<GroupShape> hybrid_groups;
};

// Returns the needs, within the largest degrees that the problem allows. Groups of ranks that share
// the tokens of a sample (context parallelism) are left out, because only data sheets price them.
// O(divisors of the number of devices, squared).
ProblemNeeds NeedsOf(const PlanningProblem& problem);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_PROBLEM_NEEDS_H_
