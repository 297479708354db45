// The error of a call that would exceed a quota. `QuotaKeeper`, `FairQueue` and `LeaseKeeper`
// return it.

#ifndef PARPLAN_SERVER_CORE_QUOTA_ERROR_H_
#define PARPLAN_SERVER_CORE_QUOTA_ERROR_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace parplan {

// A quota that a call would exceed.
struct ExceededQuota {
  // Its name in the configuration, below `quotas`: `identity.plans`.
  std::string quota;
  // The identity (`Identity::text`) or the id of the cluster that it limits.
  std::string holder;
  int64_t limit = 0;
  // The value that the call would give it.
  int64_t value = 0;
  // After how long the call may succeed.
  absl::Duration retry;
};

// Returns RESOURCE_EXHAUSTED (QUOTA_EXCEEDED) with the time to retry. `advice`, which ends the
// sentence of the error, says what to do: `wait for the answers to earlier questions`.
absl::Status QuotaError(const ExceededQuota& exceeded, absl::string_view advice);

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_QUOTA_ERROR_H_
