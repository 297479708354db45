// Pauses between attempts to reach a server that does not answer. The agent's uploads and leases
// and the sidecar's forwarder pause by it.

#ifndef PARPLAN_CLIENTS_DELIVERY_BACKOFF_H_
#define PARPLAN_CLIENTS_DELIVERY_BACKOFF_H_

#include "absl/time/time.h"

namespace parplan {

// Limits of the pauses. The longest one bounds how late a record arrives after an outage. The
// values were not measured.
struct BackoffOptions {
  // The longest that the first pause may be, and the bound that no pause exceeds.
  absl::Duration first_pause = absl::Seconds(1);
  absl::Duration longest_pause = absl::Minutes(5);
};

// Returns the pause after `failure_count` failures in a row (at least 1; less counts as 1). The
// upper end doubles with each failure, up to `longest_pause`; `random`, from 0 to 1, chooses
// between half of it and all of it, so that clients do not come back together. Pure.
absl::Duration BackoffPause(const BackoffOptions& options, int failure_count, double random);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_DELIVERY_BACKOFF_H_
