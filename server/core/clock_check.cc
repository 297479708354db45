#include "server/core/clock_check.h"

namespace parplan {

std::optional<absl::Time> ClockCheck::ConfirmedNow() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Reading reading = {clock_.Now(), clock_.Steady()};
  if (!last_.has_value()) {
    last_ = reading;
    return std::nullopt;
  }
  const absl::Duration passed = reading.steady - last_->steady;
  const bool agrees = absl::AbsDuration(reading.now - last_->now - passed) <= kDrift;
  if (!agrees) {
    last_ = reading;
    is_confirmed_ = false;
    return std::nullopt;
  }
  // Two readings at a moment, as after a signal, are one.
  if (!is_confirmed_ && passed < kMinConfirmation) return std::nullopt;
  last_ = reading;
  is_confirmed_ = true;
  return reading.now;
}

}  // namespace parplan
