// Decides when calls of a database that cannot be reached are refused at once. `PostgresPool` has
// one.

#ifndef PARPLAN_SERVER_STORE_OUTAGE_GATE_H_
#define PARPLAN_SERVER_STORE_OUTAGE_GATE_H_

#include <algorithm>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace parplan {

// A circuit breaker. Each call waits for a short outage, such as a restart of the database, to end.
// Once the database has been out of reach for `tolerated_outage`, the gate shuts, and calls are
// refused with the error that shut it, so that clients go to another replica, until the database is
// reached again. All times are of one steady clock. Used by one thread at a time.
class OutageGate {
 public:
  explicit OutageGate(absl::Duration tolerated_outage) : tolerated_outage_(tolerated_outage) {}

  // Returns whether calls are to fail at once.
  bool is_shut() const { return is_shut_; }
  // Returns when the outage began. REQUIRES: the gate is shut; not checked.
  absl::Duration outage_start() const { return *outage_start_; }
  // Returns why the gate is shut; without meaning while it is open.
  const absl::Status& cause() const { return cause_; }

  // Records that the database answered, which opens the gate.
  void Succeeded(absl::Duration now) {
    last_success_ = now;
    outage_start_.reset();
    is_shut_ = false;
  }

  // Records that a call which began at `start` failed at `now` because the database could not be
  // reached or said nothing. Returns whether this shuts the gate.
  bool Failed(absl::Duration start, absl::Duration now, const absl::Status& cause) {
    // A call that took long hides no success of another meanwhile.
    const absl::Duration since = std::max(start, last_success_);
    // Between two failures that are far apart no call came, so they are two outages.
    if (!is_shut_ && since - last_failure_ >= tolerated_outage_) outage_start_.reset();
    last_failure_ = now;
    outage_start_ = std::min(outage_start_.value_or(since), since);
    if (is_shut_ || now - *outage_start_ < tolerated_outage_) return false;
    is_shut_ = true;
    cause_ = cause;
    return true;
  }

 private:
  const absl::Duration tolerated_outage_;
  absl::Duration last_success_ = -absl::InfiniteDuration();
  absl::Duration last_failure_ = -absl::InfiniteDuration();
  std::optional<absl::Duration> outage_start_;
  bool is_shut_ = false;
  absl::Status cause_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_OUTAGE_GATE_H_
