// Options of the layers in the declared space, for brute_force_space.h.

#ifndef PARPLAN_TESTS_SUPPORT_BRUTE_FORCE_MENUS_H_
#define PARPLAN_TESTS_SUPPORT_BRUTE_FORCE_MENUS_H_

#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/strategy.h"
#include "tests/support/brute_force_space.h"

namespace parplan {

// The options of one layer of a definition.
std::vector<Strategy> StrategiesOf(const PlanningProblem& problem, const CostModel& costs,
                                   int definition_index, const PlanShape& shape);

// [layer] its strategies, of which a plan takes any one, whatever the other layers take.
using LayerMenus = std::vector<std::vector<Strategy>>;

// The plans of a shape are those of the menus together, each with every partition: one
// of everything, or many where layers are bound to each other. A plan may be in several.
std::vector<LayerMenus> MenusOf(const PlanningProblem& problem, const CostModel& costs,
                                const PlanShape& shape);

// Returns [plan][layer] the strategies of plans of this partition that recompute only the first
// layers of each stage, where the space has such plans: for each plan of `menus` without any
// recomputation of transformer layers, one for every number of layers.
std::vector<std::vector<Strategy>> BlocksOf(const PlanningProblem& problem, const LayerMenus& menus,
                                            const std::vector<int>& partition);

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_BRUTE_FORCE_MENUS_H_
