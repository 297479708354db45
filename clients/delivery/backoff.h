// When to try again.

#ifndef PARPLAN_CLIENTS_DELIVERY_BACKOFF_H_
#define PARPLAN_CLIENTS_DELIVERY_BACKOFF_H_

#include "absl/time/time.h"

namespace parplan {

struct BackoffOptions {
  absl::Duration first_pause = absl::Seconds(1);
  absl::Duration longest_pause = absl::Minutes(5);
};

// The pause after so many failures in a row (at least 1): twice as long each time, between
// half of that and all of it by `random`, 0 to 1, so that clients do not come back together.
absl::Duration BackoffPause(const BackoffOptions& options, int failure_count, double random);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_DELIVERY_BACKOFF_H_
