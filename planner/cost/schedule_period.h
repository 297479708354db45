// Pipelines become periodic; what follows notices it and skips the periods.

#ifndef PARPLAN_PLANNER_COST_SCHEDULE_PERIOD_H_
#define PARPLAN_PLANNER_COST_SCHEDULE_PERIOD_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace parplan::internal {

// No message.
inline constexpr double kNever = -std::numeric_limits<double>::infinity();

// Notices that the state of a pipeline is periodic: every component advanced by
// the same time since an earlier round. Compares with one earlier round, which it
// replaces at ever longer intervals (Brent's cycle detection), so that neither
// the length of a period nor of what precedes it need be known.
class PeriodFinder {
 public:
  PeriodFinder(const double* state, int size, double* snapshot)
      : state_(state), size_(size), snapshot_(snapshot) {
    std::copy_n(state_, size_, snapshot_);
  }

  // To be called once a round. Whether the pipeline is periodic, with `rounds()`
  // rounds a period that take `advance()`.
  bool EndRound() {
    ++rounds_;
    if (IsPeriodic()) return true;
    if (rounds_ == most_rounds_) {
      std::copy_n(state_, size_, snapshot_);
      rounds_ = 0;
      most_rounds_ *= 2;
    }
    return false;
  }
  int64_t rounds() const { return rounds_; }
  double advance() const { return state_[0] - snapshot_[0]; }

 private:
  // Sums of the same times differ by their rounding.
  static constexpr double kRounding = 4e-15;
  // What rounding hides grows with every period skipped: no more than 5e-13 of
  // the step if a period is at least this part of the time so far.
  static constexpr double kLeastAdvance = kRounding / 5e-13;

  bool IsPeriodic() const {
    const double advance = state_[0] - snapshot_[0];
    const double tolerance = state_[0] * kRounding;
    if (!(advance >= state_[0] * kLeastAdvance)) return false;
    for (int i = 1; i < size_; ++i) {
      // A message that never comes equals one that never came.
      if (std::abs(state_[i] - snapshot_[i] - advance) > tolerance) return false;
    }
    return true;
  }

  const double* state_;
  int size_;
  double* snapshot_;
  int64_t rounds_ = 0;
  int64_t most_rounds_ = 1;
};

// Calls `run(tick)` for the ticks from `tick` to `end`, of which all before
// `steady_end` do the same in every round, and skips the whole periods it can.
template <typename Run>
void RunSteadily(int64_t tick, int64_t steady_end, int64_t ticks_per_round, int64_t end,
                 double* state, int state_size, std::vector<double>& snapshot, Run run) {
  snapshot.resize(state_size);
  PeriodFinder finder(state, state_size, snapshot.data());
  while (tick + ticks_per_round <= steady_end) {
    for (int64_t i = 0; i < ticks_per_round; ++i) run(tick++);
    if (!finder.EndRound()) continue;
    const int64_t period = finder.rounds() * ticks_per_round;
    const int64_t periods = (steady_end - tick) / period;
    const double advance = finder.advance() * static_cast<double>(periods);
    for (int i = 0; periods > 0 && i < state_size; ++i) state[i] += advance;
    tick += periods * period;
    break;
  }
  while (tick < end) run(tick++);
}

}  // namespace parplan::internal

#endif  // PARPLAN_PLANNER_COST_SCHEDULE_PERIOD_H_
