// Why the method of `galvatron-bmw` is slower than the optimum of its space: its own stages on the
// optimum's partition. `CellOf` (grid.h) asks it.

#ifndef PARPLAN_STUDIES_PAPERS_BMW_LOSS_H_
#define PARPLAN_STUDIES_PAPERS_BMW_LOSS_H_

#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"

namespace parplan::papers {

// The plan that the dynamic program of BMW makes of the batch, the micro-batches and stages of the
// optimum.
struct BmwLoss {
  // Predicted samples a second, six digits; 0 if its count of memory has no assignment for some
  // stage, or if no plan that it makes fits when simulated. If it is that of the optimum, BMW would
  // have found it had it come to these stages and numbers.
  double rate_on_optimum_stages = 0.0;
  // Stages of the optimum.
  int stage_count = 0;
  // Stages in which the optimum's assignment has a smaller sum of costs than the program's, or for
  // which the program has no assignment: its count of memory refused the optimum's. In every other
  // stage the program prefers its own assignment, and loses because its sum is not the simulated
  // step.
  int refused_stage_count = 0;
  // Whether some table of the program has the strategies of the optimum in every stage. If none
  // has, `refused_stage_count` is 0 and says nothing.
  bool has_strategies = false;

  friend bool operator==(const BmwLoss&, const BmwLoss&) = default;
};

// Solves the stages of `optimum`. REQUIRES: it is a plan of the tree of `galvatron-bmw` for
// `problem`, with any number of stages, none of which ends within a unit of galvatron_tables.h;
// aborts if one does, if the planner has no tables for that number of stages, or if
// `CostModel::Create` refuses `problem`.
BmwLoss LossOnOptimumStages(const PlanningProblem& problem, const Plan& optimum);

}  // namespace parplan::papers

#endif  // PARPLAN_STUDIES_PAPERS_BMW_LOSS_H_
