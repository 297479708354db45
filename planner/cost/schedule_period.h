// Detection of the period of a pipeline, by which `ScheduleEvaluator` skips whole periods.

#ifndef PARPLAN_PLANNER_COST_SCHEDULE_PERIOD_H_
#define PARPLAN_PLANNER_COST_SCHEDULE_PERIOD_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace parplan::internal {

// Arrival time of a message that is never sent: it delays nothing.
inline constexpr double kNever = -std::numeric_limits<double>::infinity();

// Detects that the state of a pipeline is periodic: every component has advanced by the same time
// since an earlier round. The state is compared with one earlier round, which is replaced at ever
// longer intervals (Brent's cycle detection), so that neither the length of the period nor that
// of the rounds before it need be known.
class PeriodFinder {
 public:
  // `state` has `size` times, at least one, the first of which is never `kNever`; `snapshot` has
  // room for as many. Both outlive the finder.
  PeriodFinder(const double* state, int size, double* snapshot)
      : state_(state), size_(size), snapshot_(snapshot) {
    std::copy_n(state_, size_, snapshot_);
  }

  // Ends a round: the owner calls it when each device has done the passes of one more round.
  // Returns whether the pipeline is periodic; a period then has `rounds()` rounds and takes
  // `advance()` seconds.
  bool EndRound() {
    ++rounds_;
    if (IsPeriodic()) return true;
    if (rounds_ == max_rounds_) {
      std::copy_n(state_, size_, snapshot_);
      rounds_ = 0;
      max_rounds_ *= 2;
    }
    return false;
  }
  int64_t rounds() const { return rounds_; }
  double advance() const { return state_[0] - snapshot_[0]; }

 private:
  // Relative difference up to which two sums of the same times count as equal: about 18 units in
  // the last place of a double. Below it, rounding hides real periods; above it, the error of a
  // skipped period grows.
  static constexpr double kRounding = 4e-15;
  // Smallest advance of a period, as a share of the time so far. The error of rounding grows with
  // every period skipped; with this share it stays below 5e-13 of the step.
  static constexpr double kLeastAdvance = kRounding / 5e-13;

  bool IsPeriodic() const {
    const double advance = state_[0] - snapshot_[0];
    const double tolerance = state_[0] * kRounding;
    if (!(advance >= state_[0] * kLeastAdvance)) return false;
    for (int i = 1; i < size_; ++i) {
      // `kNever` minus `kNever` is not a number, which compares as equal.
      if (std::abs(state_[i] - snapshot_[i] - advance) > tolerance) return false;
    }
    return true;
  }

  const double* state_;
  int size_;
  double* snapshot_;
  int64_t rounds_ = 0;
  int64_t max_rounds_ = 1;
};

// Calls `run(tick)` for the ticks in [tick, end), which advances the `state_size` times of `state`,
// and skips the whole periods it can, for which it advances `state` itself. All ticks before
// `steady_end` do the same in every round of `ticks_per_round`. `snapshot` is scratch memory.
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
