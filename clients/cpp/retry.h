// Retries calls to a server that cannot be reached or is shutting down. The clients in this folder
// retry all idempotent methods, among them those that create something, whose `request_id` makes
// them idempotent; they do not retry `DeleteProfile` and the methods of AgentService.

#ifndef PARPLAN_CLIENTS_CPP_RETRY_H_
#define PARPLAN_CLIENTS_CPP_RETRY_H_

#include <algorithm>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/system/steady_clock.h"
#include "clients/cpp/channel.h"

namespace parplan {

// Returns `status`. If it is DEADLINE_EXCEEDED, the error of an earlier attempt is added, because
// that explains more than the fact that time is over: the code stays that of `status`, the message
// contains both, and the `ErrorDetail` (base/error.h) is that of `earlier` if `status` has none.
// `earlier` is OK if no earlier attempt failed.
absl::Status WithEarlierCause(const absl::Status& status, const absl::Status& earlier);

// Waits for `pause`, and lets gRPC connect to other replicas meanwhile. gRPC connects only on
// threads that wait for gRPC: after a plain sleep the next attempt would see the old replicas.
void PauseBetweenAttempts(absl::Duration pause);

// Calls `attempt` until it succeeds, or fails with another code than UNAVAILABLE or CANCELLED; at
// most 4 times, all within `options.timeout`. `attempt` takes the options of one attempt, whose
// timeout is the time that is left (at least 1 ms), and returns a StatusOr. Between attempts this
// thread pauses 100, 300 and 900 ms (not measured), whatever retry delay the server asks for; an
// attempt that would begin after the timeout is not made, except the first. Returns the result of
// the last attempt, with an earlier cause added by `WithEarlierCause`. CANCELLED is retried because
// a server that is shutting down answers so to calls that arrive at that moment.
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
