// A world small enough to work by hand.

#ifndef PARPLAN_TESTS_PLANNER_COST_SMALL_PROBLEM_H_
#define PARPLAN_TESTS_PLANNER_COST_SMALL_PROBLEM_H_

#include <functional>

#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/profile_snapshot.h"
#include "planner/model/strategy.h"

namespace parplan {

// The layer between embedding and head. Tokens are 2, the hidden size is 4, so one sample's
// activations between layers are 2 * 4 * 2 = 16 bytes in bf16.
inline constexpr int kDecoder = 1;
// Slow-down of work that overlaps.
inline constexpr double kSlowdown = 1.25;

// On a node of four devices, for batches of 16: 1 ms forward and 3 ms backward per sample at
// degree 1, half of it at degree 2 with 10 % on top; 1000 parameters; 800 bytes per sample, 500
// at degree 2; 1 microsecond per byte of all-reduce on any group. `change` is made to the
// measurements.
PlanningProblem SmallProblem(const std::function<void(ProfileSnapshot::Content&)>& change = nullptr,
                             PlanningRules rules = {});
CostModel SmallCosts();

// The degrees of tensor and data parallelism, and nothing else.
Strategy Degrees(int tensor, int data);

}  // namespace parplan

#endif  // PARPLAN_TESTS_PLANNER_COST_SMALL_PROBLEM_H_
