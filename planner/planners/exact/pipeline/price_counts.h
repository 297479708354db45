// Numbers of memory prices that the relaxations of this folder compute. The relaxations are in
// pipeline_prices.cc and range_bound.cc.
//
// Words (docs/glossary.md): a price is the Lagrangian multiplier of memory, in seconds per byte;
// micro-batches in flight have done their forward pass and not yet their backward pass.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PRICE_COUNTS_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PRICE_COUNTS_H_

namespace parplan {

// Limits how many stages prices are computed for. In range_bound.cc they are at most one more than
// this, stages with as many micro-batches in flight share their prices, and the others take those
// of a stage before; in pipeline_prices.cc they are fewer than twice this, and the others are
// interpolated. Prices change slowly from stage to stage, because only the number of micro-batches
// in flight differs. Not measured for other numbers.
inline constexpr int kPricedStages = 24;
// Prices tried in one search for the price of a stage; the loop usually ends earlier, at a vertex
// of the lower hull. There is one search a stage in pipeline_prices.cc, and in range_bound.cc one
// for each of its ranges of layers and weights of times. Not measured for other numbers.
inline constexpr int kPriceSteps = 24;

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PRICE_COUNTS_H_
