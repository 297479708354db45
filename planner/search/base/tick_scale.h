// Times as whole numbers of ticks, so that a sum does not depend on its order and equal costs
// compare equal. Used by the solvers of planner/search/stage and by `StepLowerBound`.

#ifndef PARPLAN_PLANNER_SEARCH_BASE_TICK_SCALE_H_
#define PARPLAN_PLANNER_SEARCH_BASE_TICK_SCALE_H_

#include <cmath>
#include <cstdint>

#include "base/check.h"
#include "base/units.h"

namespace parplan {

// Converts between seconds and ticks. A tick is a power of two of a second, chosen so that
// `largest` has between 2^50 and 2^51 ticks: rounding is below one part in 10^15 of the largest
// sum, and a sum of two such numbers is exact both as an integer and as a double.
class TickScale {
 public:
  // A `largest` of 0 gives ticks of 2^-50 s. REQUIRES: largest is finite and not negative; aborts
  // otherwise.
  explicit TickScale(Seconds largest) {
    PARPLAN_CHECK(largest.is_finite() && largest.value() >= 0.0);
    const int exponent = largest.value() > 0.0 ? std::ilogb(largest.value()) : 0;
    seconds_per_tick_exponent_ = exponent - kBits;
  }

  // Rounds to the nearest tick; above `largest` sums may be inexact as doubles. REQUIRES: `time` is
  // finite and below 2^12 times `largest` (2^13 s if that is 0), since an int64_t holds no more.
  // Nothing checks it.
  int64_t ToTicks(Seconds time) const {
    return std::llround(std::ldexp(time.value(), -seconds_per_tick_exponent_));
  }
  // Returns the time of so many ticks, exactly up to 2^53 of them.
  Seconds ToSeconds(int64_t ticks) const {
    return Seconds::Of(std::ldexp(static_cast<double>(ticks), seconds_per_tick_exponent_));
  }

 private:
  static constexpr int kBits = 50;
  int seconds_per_tick_exponent_ = 0;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_BASE_TICK_SCALE_H_
