// Why the method of `galvatron-bmw` is slower than the optimum of its space: its own stages on the
// optimum's partition. `CellOf` (grid.h) asks it.

#ifndef PARPLAN_STUDIES_PAPERS_BMW_LOSS_H_
#define PARPLAN_STUDIES_PAPERS_BMW_LOSS_H_

#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"

namespace parplan::papers {

// How BMW fares on the optimum's own stages: its dynamic program is given the batch size, the
// number of micro-batches and the layers of each stage of the optimum, and chooses the strategies.
// "The program" below is that dynamic program.
struct BmwLoss {
  // Predicted samples a second of the best plan that the program makes there, six digits; 0 if for
  // some stage its own count of memory admits no assignment of strategies, or if no plan that it
  // makes fits when simulated. If this is the rate of the optimum, BMW missed the optimum only
  // because it did not try these stages, this batch size and this number of micro-batches.
  double rate_on_optimum_stages = 0.0;
  // Stages of the optimum.
  int stage_count = 0;
  // Stages in which the optimum's assignment has a smaller sum of costs than the program's, or for
  // which the program has no assignment: its count of memory refused the optimum's. In every other
  // stage the program prefers its own assignment, and loses because its sum is not the simulated
  // step.
  int refused_stage_count = 0;
  // Whether one table of the program (one of `GalvatronTables::Choices`, galvatron_tables.h) has
  // the strategies of the optimum in every stage. If none has, `refused_stage_count` is 0 and says
  // nothing.
  bool has_strategies = false;

  friend bool operator==(const BmwLoss&, const BmwLoss&) = default;
};

// Solves the stages of `optimum`; takes as long as one dynamic program of the method for each
// table. REQUIRES: it is a plan of the decision tree of strategies (docs/papers.md) of
// `galvatron-bmw` for `problem`, with any number of stages, none of which ends within a unit of
// galvatron_tables.h; aborts if one does, if the planner has no tables for that number of stages,
// or if `CostModel::Create` refuses `problem`.
BmwLoss LossOnOptimumStages(const PlanningProblem& problem, const Plan& optimum);

}  // namespace parplan::papers

#endif  // PARPLAN_STUDIES_PAPERS_BMW_LOSS_H_
