// Numbers that the searches share.

#ifndef PARPLAN_PLANNER_SEARCH_BASE_SEARCH_NUMBERS_H_
#define PARPLAN_PLANNER_SEARCH_BASE_SEARCH_NUMBERS_H_

#include <limits>

namespace parplan {

// The cost of a choice that is impossible, and the value with which a search for the least cost
// begins: the minimum of no values.
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Relative tolerance of proofs: a plan is optimal if its step time t satisfies
// bound >= t * (1 - kProofTolerance), and a step time that is less than that much shorter is no
// better. Rounding of sums over some hundred layers stays below 1e-12; a larger tolerance would
// hide real gains.
inline constexpr double kProofTolerance = 1e-9;

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_BASE_SEARCH_NUMBERS_H_
