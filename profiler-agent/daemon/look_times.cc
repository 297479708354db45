#include "profiler-agent/daemon/look_times.h"

#include <algorithm>

#include "clients/delivery/backoff.h"

namespace parplan {
namespace {

// Interval between two looks at the hardware, which seldom changes. Not measured.
constexpr absl::Duration kInventoryInterval = absl::Hours(1);
// Pause before measuring the next part of what a time budget left out.
constexpr absl::Duration kRestPause = absl::Minutes(1);
// Pauses after a failed measurement. Not measured: each attempt takes the devices from jobs.
constexpr BackoffOptions kMeasurementPauses = {absl::Minutes(1), absl::Hours(1)};

}  // namespace

void LookTimes::Looked(absl::Duration now) { next_ = now + kInventoryInterval; }

void LookTimes::FoundLent(absl::Duration now) { next_ = now; }

void LookTimes::FoundBusy(absl::Duration now) {
  failure_count_ = 0;
  next_ = now + pauses_.busy_pause;
  earliest_drift_ = std::max(earliest_drift_, next_);
}

void LookTimes::Failed(absl::Duration now) {
  next_ = now + BackoffPause(kMeasurementPauses, ++failure_count_, 1.0);
  earliest_drift_ = std::max(earliest_drift_, next_);
}

void LookTimes::Measured(absl::Duration now, bool has_rest) {
  failure_count_ = 0;
  earliest_drift_ = now + pauses_.drift_pause;
  next_ = now + (has_rest ? kRestPause : kInventoryInterval);
}

void LookTimes::FoundDrift(absl::Duration now) {
  next_ = std::min(next_, std::max(now, earliest_drift_));
}

}  // namespace parplan
