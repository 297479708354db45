#include "solve/shared_time.h"

#include <algorithm>

namespace parplan {

std::optional<absl::Duration> SharedTime::Next() {
  const bool is_first = !has_begun_;
  has_begun_ = true;
  later_ = std::max(later_ - 1, 0);
  if (limit_ == absl::InfiniteDuration()) return limit_;
  const absl::Duration left = end_ - clock_.Steady();
  if (left <= absl::ZeroDuration()) {
    return is_first ? std::optional(absl::ZeroDuration()) : std::nullopt;
  }
  const absl::Duration half_share = limit_ / (2 * std::max(expected_, 1));
  return std::max(left - later_ * half_share, left / (later_ + 1));
}

}  // namespace parplan
