// Points of time as the databases store them. Both stores and backups have them in this form.

#ifndef PARPLAN_SERVER_STORE_STORED_TIME_H_
#define PARPLAN_SERVER_STORE_STORED_TIME_H_

#include <cstdint>
#include <limits>

#include "absl/time/time.h"

namespace parplan {

// Converts to nanoseconds since 1970; the ends of the range stand for the infinite times. Times
// outside the years 1678 to 2262 become infinite.
inline int64_t ToStoredTime(absl::Time time) {
  if (time == absl::InfiniteFuture()) return std::numeric_limits<int64_t>::max();
  if (time == absl::InfinitePast()) return std::numeric_limits<int64_t>::min();
  return absl::ToUnixNanos(time);
}

// Converts back what `ToStoredTime` returned.
inline absl::Time FromStoredTime(int64_t nanoseconds) {
  if (nanoseconds == std::numeric_limits<int64_t>::max()) return absl::InfiniteFuture();
  if (nanoseconds == std::numeric_limits<int64_t>::min()) return absl::InfinitePast();
  return absl::FromUnixNanos(nanoseconds);
}

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_STORED_TIME_H_
