// The search of plans with block recomputation: one strategy for all layers, and the first layers
// of each stage recomputed (`AllowsBlocks`). Used by `SearchExact` and `FindLeastMemoryPlan` after
// all other plans have been searched, so that questions whose spaces have no such plans cost
// nothing.

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
  struct Entry {
    explicit Entry(OptionTable options) : table(std::move(options)) {}
    OptionTable table;
    std::vector<BlockChoice> choices;
  };
  // Returns the entry of a candidate; the reference is valid as long as the tables. It is empty if
  // the meter stopped.
  const Entry& Of(const StrategySpace& space, const CostModel& costs,
                  const PipelineCandidate& candidate, SearchMeter& meter);

 private:
  std::map<TableCache::Key, std::unique_ptr<const Entry>> entries_;
};

// Adds the best plans with block recomputation that are faster than the last one of `plans`, and
// returns a proved lower bound of the time per sample of all such plans that are not slower than
// that; at least the time per sample of the last one if it is proved that none is faster. Infinite
// if there are no such plans at all, 0 if `meter` ended the search before anything was known. Plans
// that are faster by at most the share `gap_ratio` are not looked for.
//
// A best-first search over pairs of a candidate (a batch size, pipeline degree, number of
// micro-batches and schedule) and a choice of options: a first bound of each costs microseconds,
// the pair of the least bound gets a better one and is then searched. It runs on the calling
// thread.
Seconds SearchBlocks(const StrategySpace& space, const CostModel& costs, BlockTables& tables,
                     int wanted, double gap_ratio, PlanList& plans, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_BLOCK_SEARCH_H_
