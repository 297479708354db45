// The search of plans with block recomputation (`AllowsBlocks`): one strategy for all layers,
// except for the fields that `BlockChoice` (block_choice.h) names, and the first layers of each
// stage recomputed. Used by `SearchExact`, by its searches of smaller spaces and by
// `FindLeastMemoryPlan` after all other plans have been searched, so that questions whose spaces
// have no such plans cost nothing.
//
// Words (docs/glossary.md): a cutoff is a time that a plan must stay below to be wanted; a meter
// counts states and says when a search must end (search_meter.h); a candidate is all plans of one
// batch size, pipeline degree, number of micro-batches and schedule; an option is a strategy of a
// layer definition with its costs (option_table.h).

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_BLOCK_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_BLOCK_SEARCH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/planners/exact/exact_candidates.h"
#include "planner/planners/exact/pipeline/block_choice.h"
#include "planner/planners/exact/pipeline/plan_assembly.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/option_table.h"
#include "planner/search/space/strategy_space.h"

namespace parplan {

// The options of such plans, by pipeline degree and micro-batch size. They do not depend on memory,
// so searches with different memories share them. Not thread-safe.
class BlockTables {
 public:
  // The options of one pipeline degree and micro-batch size, and the choices among them.
  struct Entry {
    explicit Entry(OptionTable options) : table(std::move(options)) {}
    OptionTable table;
    std::vector<BlockChoice> choices;
  };
  // Returns the entry of a candidate; the reference is valid as long as this object. If some
  // definition has no option, or `meter` stops before the table is complete, the table is not
  // usable and there are no choices. The first call for a pipeline degree and micro-batch size
  // makes the entry, and later ones return it, even one that was not completed. REQUIRES,
  // unchecked: `AllowsBlocks`; `space` and `costs` of later calls differ from those of the first
  // only in memory.
  const Entry& Of(const StrategySpace& space, const CostModel& costs,
                  const PipelineCandidate& candidate, SearchMeter& meter);

 private:
  std::map<TableCache::Key, std::unique_ptr<const Entry>> entries_;
};

// Offers plans with block recomputation to `plans`, until it is proved that none is faster than the
// last one there by more than the share `gap_ratio`, from 0 to 1; while `plans` is not full, any
// plan that fits is wanted. `wanted` is the number of plans that `plans` keeps, which is not
// checked. Plans that are there at the call count. Plans in which all transformer layers recompute
// may be left out, because the other searches cover them.
//
// Returns a proved lower bound, in seconds per sample, of all such plans that were left open:
// infinite if nothing was, for example because the space has none (`AllowsBlocks`) or none fits;
// 0 if `meter` had stopped, or stopped before every pair had a first bound. It
// holds for the memory of the problem of `space`. The search also ends at limits of its own, which
// grow with `meter.effort()`. These do not stop `meter`: only a bound below the cutoff of `plans`
// says that something was left open.
//
// A best-first search over pairs of a candidate (a batch size, pipeline degree, number of
// micro-batches and schedule) and a choice of options: a first bound of each costs microseconds,
// the pair of the least bound gets a better one and is then searched. It runs on the calling
// thread, and calls no observer.
Seconds SearchBlocks(const StrategySpace& space, const CostModel& costs, BlockTables& tables,
                     int wanted, double gap_ratio, PlanList& plans, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_BLOCK_SEARCH_H_
