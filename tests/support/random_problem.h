// Small planning problems of every sort, for tests that compare twins.

#ifndef PARPLAN_TESTS_SUPPORT_RANDOM_PROBLEM_H_
#define PARPLAN_TESTS_SUPPORT_RANDOM_PROBLEM_H_

#include <cstdint>

#include "planner/model/planning_problem.h"

namespace parplan {

// How large a random problem may be.
struct RandomProblemShape {
  int max_layer_count = 5;
  int max_device_count = 8;
  // Plans of the space at most (`PlanCount`); dimensions are closed until there are no
  // more.
  double max_plan_count = 1e6;
  // Strategies of one layer at most.
  int max_strategy_count = 24;
  // Whether memory is near that of the smallest plan, which takes a search; else there is
  // plenty.
  bool memory_binds = true;
};

// The same seed gives the same problem: devices (1 to 8, on one or several
// nodes), layers (ends, one or two kinds of transformer layer, experts, tied
// tables, grouped heads), a measured profile or a data sheet, the runtime, dimensions,
// target, schedule, a batch or a range of them, and memory around that which the
// smallest plan needs.
PlanningProblem RandomProblem(uint64_t seed, const RandomProblemShape& shape = {});

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_RANDOM_PROBLEM_H_
