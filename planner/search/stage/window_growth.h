// How far above a lower bound to search next, if nothing was found so far. Used by `FrontCache` and
// `MaskSearch`.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_WINDOW_GROWTH_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_WINDOW_GROWTH_H_

#include <cstdint>

namespace parplan {

// The width of the window of step times above a lower bound. Windows with fewer than `kFewStates`
// states cost almost nothing, so they grow fast (`kFast`). Larger ones grow at a medium rate
// (`kMedium`) if they needed at most `kManyTimes` the states of the window before, else slowly
// (`kSlow`): then the best plan is probably near, and the number of states grows faster than any
// power of the width. The first window has none before it, so it grows slowly unless it is small.
class WindowGrowth {
 public:
  // `first` is the width of the first window, as a share of the first bound.
  explicit WindowGrowth(double first) : excess_(first) {}

  // Returns the width as a share of the first bound.
  double excess() const { return excess_; }

  // Widens the window after nothing was found in it with `state_count` states.
  void Widen(int64_t state_count) {
    const bool explodes = state_count > kManyTimes * last_state_count_;
    excess_ *= state_count < kFewStates ? kFast : explodes ? kSlow : kMedium;
    last_state_count_ = state_count;
  }

 private:
  // Factors and thresholds chosen by hand, not measured one by one. Larger factors overshoot the
  // best plan and search a window with many more states than necessary; smaller ones repeat nearly
  // the same search. A repetition with fewer than `kFewStates` states costs next to nothing.
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
