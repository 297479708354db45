// How far above a bound to look next, where nothing was found and looking farther costs more.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_WINDOW_GROWTH_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_WINDOW_GROWTH_H_

#include <cstdint>

namespace parplan {

// The first windows are small and cost nothing, so they grow fast. Where the states of one are
// many more than of the one before, most likely the best plan is near, and windows grow less:
// states grow faster than any power of them.
class WindowGrowth {
 public:
  explicit WindowGrowth(double first) : excess_(first) {}

  // As a share of the first bound.
  double excess() const { return excess_; }

  // Nothing was found within the excess, for so many states.
  void Widen(int64_t state_count) {
    const bool explodes = state_count > kManyTimes * last_state_count_;
    excess_ *= state_count < kFewStates ? kFast : explodes ? kSlow : kMedium;
    last_state_count_ = state_count;
  }

 private:
  static constexpr int64_t kFewStates = 100;
  static constexpr int64_t kManyTimes = 2;
  static constexpr double kFast = 1.7;
  static constexpr double kMedium = 1.4;
  static constexpr double kSlow = 1.15;

  double excess_;
  int64_t last_state_count_ = 0;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_WINDOW_GROWTH_H_
