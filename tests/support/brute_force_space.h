// The declared space of docs/search.md, written down once more: by loops over every
// number there is, sharing nothing with planner/search. Here its sizes, stages and plans;
// brute_force_menus.h has what layers may do.

#ifndef PARPLAN_TESTS_SUPPORT_BRUTE_FORCE_SPACE_H_
#define PARPLAN_TESTS_SUPPORT_BRUTE_FORCE_SPACE_H_

#include <cstdint>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"
#include "planner/model/strategy.h"

namespace parplan {

// A part of the space: all plans with these numbers.
struct PlanShape {
  int64_t global_batch_size = 1;
  int64_t micro_batch_count = 1;
  int pipeline_parallel_degree = 1;
  Schedule schedule = Schedule::kOneForwardOneBackward;
  int virtual_stage_count = 1;
  // 0: as many as the pipeline degree.
  int64_t micro_batch_group_size = 0;

  int stage_count() const { return pipeline_parallel_degree * virtual_stage_count; }
  int64_t micro_batch_size() const { return global_batch_size / micro_batch_count; }
};

inline bool IsPowerOfTwo(int number) { return (number & (number - 1)) == 0; }

std::vector<PlanShape> ShapesOf(const PlanningProblem& problem);

// Layers of each stage, in the order of the model; one entry a way to cut.
std::vector<std::vector<int>> PartitionsOf(const PlanningProblem& problem, const PlanShape& shape);

// Stages of `partition` with a strategy a layer, in runs as long as can be.
Plan MakePlan(const PlanningProblem& problem, const PlanShape& shape,
              const std::vector<int>& partition, const std::vector<Strategy>& strategy_of_layer);

// How many plans all of this makes, counting those in several menus as often.
double PlanCount(const PlanningProblem& problem, const CostModel& costs);

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_BRUTE_FORCE_SPACE_H_
