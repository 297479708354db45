// The times at which the agent looks whether a measurement of its node is due. The daemon has one
// `LookTimes` and reports events to it.
//
//   LookTimes times({.busy_pause = absl::Minutes(5), .drift_pause = absl::Minutes(10)});
//   if (now >= times.next()) {
//     times.Looked(now);
//     ...  // begins a measurement, or finds that none is due
//   }
//   times.Failed(SteadyNow());  // the measurement has ended so

#ifndef PARPLAN_PROFILER_AGENT_DAEMON_LOOK_TIMES_H_
#define PARPLAN_PROFILER_AGENT_DAEMON_LOOK_TIMES_H_

#include "absl/time/time.h"

namespace parplan {

// The first look is due at once. After each event the next one is due when the comment of its
// method says. No clock: `now` is the time of the event on `SteadyNow`
// (base/system/steady_clock.h), since a time of day may jump. Not thread-safe.
class LookTimes {
 public:
  struct Pauses {
    // Pause after the node was busy.
    absl::Duration busy_pause;
    // Least pause between a measurement and one that drift causes.
    absl::Duration drift_pause;
  };
  explicit LookTimes(const Pauses& pauses) : pauses_(pauses) {}

  absl::Duration next() const { return next_; }

  // A look: an hour later, for the inventory, unless another event follows.
  void Looked(absl::Duration now);
  // Another node has borrowed this one: at once. The end of that lease wakes the daemon.
  void FoundLent(absl::Duration now);
  // The node was busy: after `busy_pause`.
  void FoundBusy(absl::Duration now);
  // A measurement failed: after a pause that doubles from 1 minute to 1 hour while nothing else
  // ends a measurement.
  void Failed(absl::Duration now);
  // A measurement succeeded: in 1 minute if the time budget has left something out, else in an
  // hour.
  void Measured(absl::Duration now, bool has_rest);
  // Windows of jobs show drift: at once, but neither before `drift_pause` after the last
  // measurement nor before the end of the pause after a busy node or a failure: the windows come
  // from the jobs that keep the node busy. Never later than without drift.
  void FoundDrift(absl::Duration now);

 private:
  const Pauses pauses_;
  absl::Duration next_ = -absl::InfiniteDuration();
  // Drift causes no look before this time.
  absl::Duration earliest_drift_ = -absl::InfiniteDuration();
  // Measurements that failed, one after the other.
  int failure_count_ = 0;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_DAEMON_LOOK_TIMES_H_
