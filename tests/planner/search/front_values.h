// Helpers of the tests of stage fronts.

#ifndef PARPLAN_TESTS_PLANNER_SEARCH_FRONT_VALUES_H_
#define PARPLAN_TESTS_PLANNER_SEARCH_FRONT_VALUES_H_

#include <cstdint>
#include <random>

#include "planner/search/stage/stage_front.h"

namespace parplan {

// Relative difference at which two values of cuts are equal, except for rounding.
inline constexpr double kFrontTolerance = 1e-12;

// Returns a whole number from `low` to `high`.
inline int Draw(std::mt19937_64& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
}

// Returns the seconds that a choice costs under a cut.
inline double Value(const LinearCut& cut, const StageChoice& choice) {
  return cut.forward * choice.forward.value() + cut.backward * choice.backward.value() +
         cut.sync * choice.sync.value();
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_PLANNER_SEARCH_FRONT_VALUES_H_
