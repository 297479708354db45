// What a given plan takes: time of a step and memory of every stage.

#ifndef PARPLAN_PLANNER_COST_PREDICT_PLAN_H_
#define PARPLAN_PLANNER_COST_PREDICT_PLAN_H_

#include "planner/cost/cost_model.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"

namespace parplan {

// Predicts `plan`. The step time is the end of the schedule simulated event by
// event (pipeline_schedule.h), then the exposed gradient synchronisation of the
// stage that ends last. The same function serves search, report and
// `planctl evaluate`: there is one objective.
//
// REQUIRES: `plan` satisfies `CheckPlanStructure` for `problem`.
Prediction PredictPlan(const PlanningProblem& problem, const CostModel& costs, const Plan& plan);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_PREDICT_PLAN_H_
