// The least memory, and the fewest devices, with which a plan exists. `exact` asks for both if no
// plan fits, and whether any plan fits at the end of a front of memory; LeastMemorySearch starts
// from the plan of least memory, and the ILP planners take one that fits if they found none.
//
// A plan fits if the upper end of its predicted memory at the risk of the rules is at most the
// usable memory (`Prediction::peak_memory_upper`). All memory is that of one device.
//
// All functions run on the calling thread, call no observer and count states on `meter`, whose
// `should_stop` they ask. REQUIRES, unchecked: `costs` are those of the problem of `space`.
//
// Words (docs/glossary.md): a mask is the set of options that a plan may use.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_SMALLEST_MEMORY_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_SMALLEST_MEMORY_H_

#include <optional>

#include "base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/strategy_space.h"

namespace parplan {

// The least usable memory with which `exact` finds a plan, and a plan that needs no more.
struct SmallestMemory {
  // Memory of one device that the plan may use.
  Bytes usable_memory;
  Plan plan;
  // False if it is not proved that no plan of the space needs less, for one of these reasons:
  // - a limit ended the search;
  // - the space has `kPerLayer` without `kEndStrategies`, which ties end layers to their
  //   neighbours, so only masks of equal degrees, rank order and sharding were searched;
  // - the plan needs more than the compared sums of memory, which omit kept stage outputs and the
  //   optimizer step;
  // - the space has interleaved plans, whose sums are not lower bounds if the runtime keeps stage
  //   outputs or some option has memory of the optimizer step or of a bucket;
  // - the space has interleaved plans of partitions that are not listed (interleaved_partitions.h)
  //   or of other group sizes (group_sizes.h), and no plan of one stage per device is known to need
  //   less than all of them;
  // - the space has plans with block recomputation of several definitions of transformer layers,
  //   which were not searched and may need less.
  bool is_proved = true;
};

// Searches the declared space, whatever memory the problem has, but for the plans that `is_proved`
// names. Of the numbers of micro-batches it tries the smallest of each size of micro-batch, which
// needs the least memory. Returns nothing if there is no plan at any memory among those searched,
// or a limit ended the search before the first plan. The first does not mean that the space has
// none if it has plans that `is_proved` names, for example interleaved ones of partitions that are
// not listed.
std::optional<SmallestMemory> FindSmallestMemory(const StrategySpace& space, const CostModel& costs,
                                                 SearchMeter& meter);

// Returns whether any plan fits in the problem's memory; nothing if that is undecided, for the
// reasons of `SmallestMemory::is_proved`.
std::optional<bool> AnyPlanFits(const StrategySpace& space, const CostModel& costs,
                                SearchMeter& meter);

// A plan that fits, or that there is none.
struct FittingPlan {
  // Absent if none was found.
  std::optional<Plan> plan;
  // Whether it is proved that no plan fits; false if there is one.
  bool none_fits = false;
};

// Returns the first plan found that fits in the problem's memory, by the same search, however slow
// it is. If it finds none and `none_fits` is not set, that is undecided.
FittingPlan FindPlanThatFits(const StrategySpace& space, const CostModel& costs,
                             SearchMeter& meter);

// Returns the fewest devices, in whole nodes, with which some plan of `exact` fits: tries one node,
// two, and so on up to `kMaxNodesTried` (planning_result.h) more than the problem has. Creates a
// cost model for each number. Returns nothing at the first number for which no cost model can be
// made, the answer is undecided or the devices are more than `kMaxDeviceCount`
// (planning_problem.h), when a limit ends the search, or if none tried is enough. The result is the
// number of devices, not of nodes. The usable memory of a device, the batch and the rules stay
// those of the problem. REQUIRES: the problem has one node group; aborts otherwise. `meter` is
// shared by all the numbers tried.
std::optional<int> FindSmallestDeviceCount(const PlanningProblem& problem, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_SMALLEST_MEMORY_H_
