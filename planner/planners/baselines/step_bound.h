// A lower bound of the step of all plans of one pipeline degree and micro-batch count.
// `SearchBaseline` skips what it excludes.
//
// Words (docs/glossary.md): micro-batches in flight have done their forward pass and not yet their
// backward pass.

#ifndef PARPLAN_PLANNER_PLANNERS_BASELINES_STEP_BOUND_H_
#define PARPLAN_PLANNER_PLANNERS_BASELINES_STEP_BOUND_H_

#include "base/units.h"
#include "planner/planners/baselines/stage_tables.h"

namespace parplan {

// Returns a lower bound of the step time that `PredictPlan` gives any plan of `tables` whose stages
// each fit in `stage_budget` (bytes for the tensors of one device,
// `MemoryOverheads::TensorBudget`), over every partition and every assignment. Infinite if the
// layers do not even fit into the budgets of all stages together; if it is finite, a plan need not
// fit.
//
// Take a plan of P stages and m micro-batches. Let y_i be the forward and backward time of its
// stage i for one micro-batch, S the sum of all y_i, and n_i the number of micro-batches in flight
// on stage i. Let X be a lower bound of S for every plan: the least sum of the times of all layers,
// without transitions, if the layers of all stages together may keep P times `stage_budget`. The
// bounds hold for schedules without virtual stages, 1F1B and GPipe; `SearchBaseline` has no others.
//
// 1. Stage i begins after one micro-batch has passed the stages before it and ends before the last
//    one has returned through them, and it works for m y_i in between:
//      step >= (sum over j < i of y_j) + m y_i.
//    Let S_i be the sum of y_1 to y_i. The line gives y_i <= (step - S_(i-1)) / m, so
//    S_i <= (1 - 1/m) S_(i-1) + step / m, and after P stages X <= S <= step (1 - (1 - 1/m)^P):
//      step >= X / (1 - (1 - 1/m)^P).
// 2. The first micro-batch of stage i returns to it only from the last stage. Until then stage i
//    can run no more forward passes than the n_i it may have in flight, so the rest of its work
//    comes in addition to the time S of one micro-batch through all stages:
//      step >= S + c_i y_i,
//    where c_i = (m - n_i) + (n_i - 1) r, and r is the least share of the backward pass in the time
//    of a layer, over all entries of the tables. With GPipe c_i = m - 1: forward and backward
//    passes are two phases, and in each stage i runs m - 1 passes beyond the time of one
//    micro-batch. Hence y_i <= (step - S) / c_i, and the sum over i gives
//      step >= X + X / (sum of 1 / c_i).
// 3. A stage does all its work and then synchronises gradients, and the slowest of P stages takes
//    at least their mean:
//      step >= (least sum, over all layers, of the time of the whole step) / P.
//
// The result is the largest of the three. Its time is that of two calls of `Relax`
// (assignment_bound.h) for all layers. REQUIRES: `tables.usable()`, which is not checked.
Seconds StepLowerBound(const StageTables& tables, Bytes stage_budget);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_BASELINES_STEP_BOUND_H_
