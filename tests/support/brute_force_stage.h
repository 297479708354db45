// All ways to run one stage that some plan could want. Part of `EveryStage`.

#ifndef PARPLAN_TESTS_SUPPORT_BRUTE_FORCE_STAGE_H_
#define PARPLAN_TESTS_SUPPORT_BRUTE_FORCE_STAGE_H_

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/rank_memory.h"
#include "tests/support/brute_force_menus.h"
#include "tests/support/brute_force_space.h"

namespace parplan {

// Layers one after the other, each under an option of its menu.
struct GrownStage {
  std::vector<int> options;
  Seconds forward;
  Seconds backward;
  // Gradients and optimizer, once a step.
  Seconds sync;
  StageMemory memory;
  int communicator_count = 0;
};

// Stages of one shape and menu. Keeps references to its arguments.
class StageGrower {
 public:
  StageGrower(const PlanningProblem& problem, const CostModel& costs, const PlanShape& shape,
              const LayerMenus& menus);

  // Those that fit on stage `index` when it has `count` layers from `first` on, without
  // those that another replaces in any plan. Valid as long as the grower.
  const std::vector<GrownStage>& Stages(int index, int first, int count);

  // The least usable memory with which one fits.
  Bytes LeastMemory(int index, int first, int count);

 private:
  // The cost of a layer under an option, and the class by which other layers see it.
  struct Option {
    LayerCost cost;
    int communicator_count = 0;
    // Options of equal class cost the layers and stages behind (before) the same.
    int class_behind = 0;
    int class_before = 0;
  };

  void Classify();
  void DropDominated(std::vector<GrownStage>& stages, int first, bool only_memory) const;
  std::vector<GrownStage> Grow(int first, int count, bool only_memory) const;
  Bytes Upper(const GrownStage& stage, int index) const;
  Seconds Transition(int layer, int from, int to) const;

  const PlanningProblem& problem_;
  const CostModel& costs_;
  const PlanShape& shape_;
  const LayerMenus& menus_;
  // [layer][option]
  std::vector<std::vector<Option>> options_;
  // [layer] options that no other replaces in any stage.
  std::vector<std::vector<int>> useful_;
  // By first layer and layers.
  std::map<std::pair<int, int>, std::vector<GrownStage>> grown_;
  std::map<std::pair<int, int>, std::vector<GrownStage>> grown_for_memory_;
  // By index, first layer and layers.
  std::map<std::tuple<int, int, int>, std::vector<GrownStage>> fitting_;
};

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_BRUTE_FORCE_STAGE_H_
