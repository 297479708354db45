// A lower bound of the step of all plans of one pipeline degree and micro-batch count.
// `SearchBaseline` skips what it excludes.

#ifndef PARPLAN_PLANNER_PLANNERS_BASELINES_STEP_BOUND_H_
#define PARPLAN_PLANNER_PLANNERS_BASELINES_STEP_BOUND_H_

#include "base/units.h"
#include "planner/planners/baselines/stage_tables.h"

namespace parplan {

// Returns a lower bound of the step time that `PredictPlan` gives any plan of `tables` whose stages
// each fit in `stage_budget` (bytes for the tensors of one device,
// `MemoryOverheads::TensorBudget`), over every partition and every assignment. Infinite if none
// fits.
//
// Let y be the forward and backward time of a stage for one micro-batch, X the least sum of y over
// all stages that the memory of all stages together allows, P the number of stages and m that of
// micro-batches. Then, with any schedule,
//
//  stage i waits for the stages before it, and they for it at the end:
//    step >= sum over j < i of y_j + m y_i
//    hence step >= X / (1 - (1 - 1/m)^P);
//  the first micro-batch of stage i returns only from the last stage, by which time i has
//  run no more than its n_i forward passes in flight:
//    step >= X + (m - n_i) y_i + (n_i - 1) r y_i, r the least share of the
//    backward pass in y; with GPipe step >= X + (m - 1) y_i;
//    hence step >= X + X / sum of the inverses of those coefficients;
//  a stage does all its work, and then synchronises gradients:
//    step >= (least sum over stages of m y_i + synchronisation) / P.
//
// The result is the largest of the three.
Seconds StepLowerBound(const StageTables& tables, Bytes stage_budget);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_BASELINES_STEP_BOUND_H_
