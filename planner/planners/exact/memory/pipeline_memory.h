// The memory that pipelines of one table of options need, without interleaving. Used by
// `FindSmallestMemory`.
//
// Words (docs/glossary.md): a mask is the set of options that a plan may use; an option is a
// strategy of a layer definition with its costs (option_table.h); micro-batches in flight have done
// their forward pass and not yet their backward pass; a definition is the sizes of a layer, the
// same for equal layers.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_PIPELINE_MEMORY_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_PIPELINE_MEMORY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "base/units.h"
#include "planner/model/plan.h"
#include "planner/planners/exact/memory/memory_options.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/search/space/option_table.h"

namespace parplan {

// The plans of one table and mask under the schedule of the setting. GPipe keeps all micro-batches
// where 1F1B keeps one per later stage, and is alike otherwise, so it never needs less memory, and
// `FindSmallestMemory` asks about it only if the rules want it.
//
// The memory of a stage is taken as a sum over its layers; kept outputs and the optimizer's step
// are not counted. REQUIRES, unchecked: `setting` outlives this object; `mask` is as for
// `LeanOptions` (memory_options.h).
class PipelineMemory {
 public:
  // `work` is `SearchMeter::Worker`. Once it returns false nothing fits, so that the caller has to
  // ask its meter whether that is so: the tables of thousands of unlike layers take seconds, and
  // gigabytes.
  PipelineMemory(const PipelineSetting& setting, const OptionMask& mask,
                 const std::function<bool(int64_t)>& work);

  // Returns whether some partition that the space allows fits into `usable` bytes on every device,
  // overheads (`BudgetsOf`) included. Neither resharding between neighbours nor time is asked.
  bool Fits(Bytes usable) const;

  // Returns a plan that fits: the first stages have as many layers as they can hold, unless the
  // space fixes the partition. Its real memory may be more, by what the sums leave out, and whether
  // the space allows its options on neighbouring layers depends on the mask. REQUIRES, unchecked:
  // Fits(usable).
  Plan PlanWithin(Bytes usable) const;

 private:
  // The options whose transient memory and communicators are at most these.
  struct CapClass {
    Bytes transient;
    int communicator_count = 0;
  };
  // The longest range of layers a stage can hold, and the class of options with which.
  struct StageReach {
    int end_layer = 0;
    int cap_class = -1;
  };

  BudgetByCommunicators BudgetsFor(Bytes usable) const;
  void ListClasses();
  // Returns the option of the class that keeps least; -1 if the class has none.
  int LeastOption(int64_t in_flight, int cap_class, int definition) const;
  // Returns [class][definition] the least bytes kept; nothing once `work` returns false.
  std::vector<std::vector<Bytes>> LeastOf(int64_t in_flight,
                                          const std::function<bool(int64_t)>& work) const;
  // Returns the longest range of layers from `first_layer` on that fits in the stage. Later stages
  // keep less per layer, so taking as many layers as possible leaves them least.
  StageReach ReachOfStage(int stage_index, int first_layer,
                          const BudgetByCommunicators& budget) const;

  const PipelineSetting& setting_;
  // [definition] options worth looking at.
  const std::vector<std::vector<int>> lean_;
  bool is_usable_ = true;
  std::vector<CapClass> classes_;
  // `LeastOf` by number of micro-batches in flight.
  std::map<int64_t, std::vector<std::vector<Bytes>>> least_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_PIPELINE_MEMORY_H_
