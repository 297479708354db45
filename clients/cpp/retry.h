// Retries calls that gRPC itself does not retry: those whose requests are a stream. The clients in
// this folder call it.

#ifndef PARPLAN_CLIENTS_CPP_RETRY_H_
#define PARPLAN_CLIENTS_CPP_RETRY_H_

#include <algorithm>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "clients/cpp/channel.h"

namespace parplan {

// Calls `attempt`, which takes the options of one attempt (with the time that is left, at least
// 1 ms) and returns a StatusOr, until it succeeds or fails with another code than UNAVAILABLE or
// CANCELLED; at most 4 times, all within `options.timeout`. Pauses 100, 300 and 900 ms between
// attempts (not measured), on this thread. Returns the result of the last attempt; one that would
// begin after the timeout is not made.
template <typename Attempt>
auto WithRetries(const CallOptions& options, const Attempt& attempt) -> decltype(attempt(options)) {
  constexpr int kMaxAttemptCount = 4;
  constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
  const absl::Time end = absl::Now() + options.timeout;
  absl::Duration pause = kFirstPause;
  for (int i = 1;; ++i) {
    CallOptions rest = options;
    rest.timeout = std::max(end - absl::Now(), absl::Milliseconds(1));
    auto result = attempt(rest);
    const absl::StatusCode code = result.status().code();
    if (code != absl::StatusCode::kUnavailable && code != absl::StatusCode::kCancelled) {
      return result;
    }
    if (i == kMaxAttemptCount || absl::Now() + pause >= end) return result;
    absl::SleepFor(pause);
    pause *= 3;
  }
}

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_CPP_RETRY_H_
