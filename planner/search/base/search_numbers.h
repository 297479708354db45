// Numbers that the searches share.

#ifndef PARPLAN_PLANNER_SEARCH_BASE_SEARCH_NUMBERS_H_
#define PARPLAN_PLANNER_SEARCH_BASE_SEARCH_NUMBERS_H_

#include <limits>

namespace parplan {

// The cost of a choice that is impossible, and the least of no costs.
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Steps whose relative difference is smaller are considered equal. Rounding of sums over some
// hundred layers stays below 1e-12; a larger tolerance would hide real gains.
inline constexpr double kProofTolerance = 1e-9;

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_BASE_SEARCH_NUMBERS_H_
