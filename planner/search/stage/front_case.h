// A stage prepared for the search of its Pareto front: lower bounds of the time and memory of its
// layers, and only the options that can occur in a result.
//
// For every cut, a price of memory turns time and bytes of an option into one cost. The cost of an
// option above that of the cheapest one (its reduced cost) is a lower bound of the loss an
// assignment suffers by using it. So options whose reduced cost exceeds the slack of a cut are
// removed, and an assignment whose reduced costs add up to more than the slack is not completed. If
// everything that remains fits, memory is ignored from then on, and with it options whose only
// merit is to save memory. Used by `SolveStage`.
//
// Words (docs/glossary.md): a cut is a linear inequality on the times of a stage that every wanted
// plan satisfies; a price is the Lagrangian multiplier of memory, in seconds per byte; half a
// resharding is the part that one of the two passes takes; options have one layout if activations
// move between them at no cost; an option is a strategy of a layer definition with its costs
// (option_table.h).

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_FRONT_CASE_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_FRONT_CASE_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "planner/search/stage/tick_stage.h"

namespace parplan {

// A cut and its price of memory, in weighted ticks per byte.
struct PricedCut {
  LinearCut cut;
  double price = 0.0;

  // Returns the weighted ticks of `sum` and its bytes at the price.
  double Cost(const FrontSum& sum) const {
    return cut.forward * static_cast<double>(sum.forward) +
           cut.backward * static_cast<double>(sum.backward) +
           cut.sync * static_cast<double>(sum.sync) + price * static_cast<double>(sum.bytes);
  }
};

// How much layers that are not yet assigned can lose or gain, for one cut.
struct Rates {
  // Least cost per byte saved; infinite if no byte can be saved.
  double save = std::numeric_limits<double>::infinity();
  // Least cost, above its price, per byte added, whether the byte is used or stays unused. At most
  // the price.
  double add = 0.0;

  // Takes one more option into account, by its reduced cost and the bytes it needs beyond the
  // cheapest one, below 0 if it saves some.
  void Include(double reduced, double bytes) {
    if (bytes < 0.0) save = std::min(save, reduced / -bytes);
    if (bytes > 0.0) add = std::min(add, reduced / bytes);
  }
};

// Sums over the layers after some run, each at its cheapest option; for one cut.
struct SuffixCosts {
  // Cost of those layers, less the price of all the memory there is.
  double cost = 0.0;
  // Bytes of those layers less the memory there is.
  double bytes = 0.0;
  Rates rates;
};

// One case of a stage: a range of the largest transient memory, with its bounds.
struct FrontCase {
  // The stage of `CasesOf`, which outlives the case.
  const TickStage* stage = nullptr;
  // The least value the largest transient has, and the largest budget any assignment has. `room` is
  // the budget less that transient and less the outputs of the best last layout, in bytes. All
  // three are 0, as the bytes of options are, if `memory_fits`.
  int64_t least_transient = 0;
  int64_t max_budget = 0;
  int64_t room = 0;
  // Whether the outputs of the stage, and the memory of its optimizer's step, may decide what fits.
  bool has_output = false;
  bool has_step = false;
  // Whether everything fits, so that memory is ignored.
  bool memory_fits = false;
  // [kind] the remaining options, most promising first. Not empty.
  std::vector<std::vector<TickStage::Option>> options;
  // The cuts of the stage in their order, each with its price; all prices are 0 if `memory_fits`.
  std::vector<PricedCut> cuts;
  // [run * cut count + cut] the layers after the run.
  std::vector<SuffixCosts> suffix;
  // [(run * cut count + cut) * layout count + layout] `SuffixCosts::cost` if the run ends with the
  // layout, including the least resharding of the layers after it.
  std::vector<double> suffix_cost_of_layout;
  // [run] the least and the most bytes of the layers after it.
  std::vector<int64_t> least_bytes_after;
  std::vector<int64_t> max_bytes_after;
  // Largest sum of the transient beyond `least_transient`, the budget short of `max_budget`, and
  // outputs.
  int64_t max_overhead = 0;

  // Returns [cut] the sums over the layers after a run, valid as long as `suffix`.
  const SuffixCosts* SuffixAfter(size_t run) const { return &suffix[run * cuts.size()]; }
  // Returns the cost of the layers after a run that ends with `layout` (-1: unknown).
  double SuffixCost(size_t run, size_t cut, int layout) const {
    const size_t index = run * cuts.size() + cut;
    return layout < 0 ? suffix[index].cost
                      : suffix_cost_of_layout[index * stage->layout_count + layout];
  }
};

// Returns cases that together contain all assignments that fit and satisfy the cuts; none if bounds
// show that no assignment does. `stage` must outlive them. The largest transient varies little
// within a case, so the bounds of a case can use it; an assignment may be in several cases.
std::vector<FrontCase> CasesOf(const TickStage& stage);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_FRONT_CASE_H_
