// Numbers of memory prices that the relaxations of this folder compute. The relaxations are in
// pipeline_prices.cc and range_bound.cc.
//
// Words (docs/glossary.md): a price is the Lagrangian multiplier of memory, in seconds per byte;
// micro-batches in flight have done their forward pass and not yet their backward pass.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PRICE_COUNTS_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PRICE_COUNTS_H_

namespace parplan {

// About how many stages prices are computed for; the others follow from these. Prices change slowly
// from stage to stage, because only the number of micro-batches in flight differs. Not measured for
// other numbers.
inline constexpr int kPricedStages = 24;
// Prices tried for one stage; the loop usually ends earlier, at a vertex of the lower hull. Not
// measured for other numbers.
inline constexpr int kPriceSteps = 24;

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PRICE_COUNTS_H_
