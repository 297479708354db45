// Whether the time of day may be trusted with a deletion: a clock that is far ahead for a moment
// would let everything be old. `ServerCore` and `QuotaKeeper` own one each.
//
//   ClockCheck check(clock);
//   ...
//   if (const std::optional<absl::Time> now = check.ConfirmedNow()) DeleteWhatExpired(*now);

#ifndef PARPLAN_SERVER_CORE_CLOCK_CHECK_H_
#define PARPLAN_SERVER_CORE_CLOCK_CHECK_H_

#include <mutex>
#include <optional>

#include "absl/time/time.h"
#include "base/system/clock.h"

namespace parplan {

// Compares readings of the time of day with the steady clock. Safe to use from any thread.
class ClockCheck {
 public:
  // The clock outlives the check.
  explicit ClockCheck(const Clock& clock) : clock_(clock) {}

  // Reads the clocks, and returns the time of day if it agrees with an earlier reading: the first
  // one came `kMinConfirmation` before, and no reading since disagreed by more than `kDrift`. Else
  // returns nothing: delete nothing then, and ask again later. A reading that disagrees is the
  // first one of the next time.
  std::optional<absl::Time> ConfirmedNow();

  // The time over which the clocks have to agree. Not measured; the maintenance of a server comes
  // once an hour.
  static constexpr absl::Duration kMinConfirmation = absl::Minutes(10);
  // The difference that counts as agreement, more than NTP corrects in an hour.
  static constexpr absl::Duration kDrift = absl::Minutes(5);

 private:
  struct Reading {
    absl::Time now;
    absl::Duration steady;
  };

  const Clock& clock_;
  std::mutex mutex_;
  std::optional<Reading> last_;  // Guarded by mutex_.
  // Whether `last_` agreed with a reading long enough before it. Guarded by mutex_.
  bool is_confirmed_ = false;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_CLOCK_CHECK_H_
