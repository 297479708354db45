// Retries calls to a server that is not there, or that ends. The clients in this folder call it for
// all methods that are idempotent (those that create something are, by their request_id); not for
// `DeleteProfile` and calls of AgentService.

#ifndef PARPLAN_CLIENTS_CPP_RETRY_H_
#define PARPLAN_CLIENTS_CPP_RETRY_H_

#include <algorithm>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/system/steady_clock.h"
#include "clients/cpp/channel.h"

namespace parplan {

// Returns `status`, and if it is a deadline that passed, with the cause for which an earlier
// attempt failed: what the server said then explains more than that time is over. The code stays;
// the message has both, and the `ErrorDetail` (base/error.h) is that of `earlier` if `status` has
// none. `earlier` is OK if there was none.
absl::Status WithEarlierCause(const absl::Status& status, const absl::Status& earlier);

// Waits for `pause`, and lets gRPC connect to other replicas meanwhile: it does so on threads that
// wait for it only, and a thread that merely slept would find the replicas of before.
void PauseBetweenAttempts(absl::Duration pause);

// Calls `attempt`, which takes the options of one attempt (with the time that is left, at least
// 1 ms) and returns a StatusOr, until it succeeds or fails with another code than UNAVAILABLE or
// CANCELLED; at most 4 times, all within `options.timeout`. Pauses 100, 300 and 900 ms between
// attempts (not measured), on this thread, whatever retry delay the server names. Returns the
// result of the last attempt, as WithEarlierCause has it; one after the first that would begin
// after the timeout is not made. CANCELLED is the answer of a server that ends to a call that races
// its shutdown.
template <typename Attempt>
auto WithRetries(const CallOptions& options, const Attempt& attempt) -> decltype(attempt(options)) {
  constexpr int kMaxAttemptCount = 4;
  constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
  const absl::Duration end = SteadyNow() + options.timeout;
  absl::Duration pause = kFirstPause;
  absl::Status earlier;
  for (int i = 1;; ++i) {
    CallOptions rest = options;
    rest.timeout = std::max(end - SteadyNow(), absl::Milliseconds(1));
    auto result = attempt(rest);
    const absl::StatusCode code = result.status().code();
    if (code == absl::StatusCode::kDeadlineExceeded) {
      return WithEarlierCause(result.status(), earlier);
    }
    if (code != absl::StatusCode::kUnavailable && code != absl::StatusCode::kCancelled) {
      return result;
    }
    if (i == kMaxAttemptCount || SteadyNow() + pause >= end) return result;
    earlier = result.status();
    PauseBetweenAttempts(pause);
    pause *= 3;
  }
}

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_CPP_RETRY_H_
