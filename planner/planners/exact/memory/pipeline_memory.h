// How much memory the pipelines of one table of options need, without interleaving.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_PIPELINE_MEMORY_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_PIPELINE_MEMORY_H_

#include <cstdint>
#include <map>
#include <vector>

#include "base/units.h"
#include "planner/model/plan.h"
#include "planner/planners/exact/memory/memory_options.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/search/space/option_table.h"

namespace parplan {

// The plans of one table under 1F1B with one mask. GPipe keeps all micro-batches where 1F1B
// keeps as many as there are stages behind, and all else alike, so it never needs less.
//
// What stages need are sums over their layers; outputs that are kept and the optimizer's step
// are not in them. REQUIRES: `setting` outlives it.
class PipelineMemory {
 public:
  PipelineMemory(const PipelineSetting& setting, const OptionMask& mask);

  // Whether some partition fits into `usable` on every device.
  bool Fits(Bytes usable) const;

  // One that does. REQUIRES: Fits(usable).
  Plan PlanWithin(Bytes usable) const;

 private:
  // A stage's layers use options that need no more than so much while they run, and no more
  // communicators.
  struct CapClass {
    Bytes transient;
    int communicator_count = 0;
  };
  // A run of layers in the place of a stage: which options do, and how far it reaches.
  struct StageReach {
    int end_layer = 0;
    int cap_class = -1;
  };

  BudgetByCommunicators BudgetsFor(Bytes usable) const;
  void ListClasses();
  // The option of the class that keeps least; -1 where the class has none.
  int LeastOption(int64_t in_flight, int cap_class, int definition) const;
  // [class][definition]
  std::vector<std::vector<Bytes>> LeastOf(int64_t in_flight) const;
  // The most layers from `first_layer` on that fit in the stage, and the class with which.
  // Later stages keep less, so what fits here leaves them least to do.
  StageReach ReachOfStage(int stage_index, int first_layer,
                          const BudgetByCommunicators& budget) const;

  const PipelineSetting& setting_;
  // [definition] options that are worth a look.
  const std::vector<std::vector<int>> lean_;
  bool is_usable_ = true;
  std::vector<CapClass> classes_;
  // By micro-batches in flight.
  std::map<int64_t, std::vector<std::vector<Bytes>>> least_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_PIPELINE_MEMORY_H_
