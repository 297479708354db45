// What a call brings besides its request: who it is in the logs, until when it
// waits, and whether it still waits.

#ifndef PARPLAN_SERVER_CORE_CALL_CONTEXT_H_
#define PARPLAN_SERVER_CORE_CALL_CONTEXT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/time/time.h"
#include "base/system/clock.h"

namespace parplan {

// Shared by the transport, which cancels, and the core, which asks. Safe to use
// from any thread.
class CallContext {
 public:
  // `time_left` counts from now on the steady clock; infinite for a call without
  // a deadline.
  static std::shared_ptr<CallContext> Create(std::string request_id, absl::Duration time_left,
                                             const Clock& clock = Clock::Real());

  // For logs: of the caller's metadata or made by the server. Not the
  // `request_id` of the request message.
  const std::string& request_id() const { return request_id_; }

  // On the steady clock.
  absl::Duration deadline() const { return deadline_; }
  bool IsPastDeadline() const { return clock_.Steady() >= deadline_; }

  // The caller is gone: its connection broke, it cancelled, or the transport saw
  // its deadline pass. Runs what `OnCancel` was given, on this thread, once.
  void Cancel();
  bool cancelled() const;

  // `callback` runs when the call is cancelled; at once, on this thread, when it
  // is already. Gives a number for `RemoveOnCancel`. A callback that has begun on
  // another thread goes on after `RemoveOnCancel`, so it owns what it touches.
  int64_t OnCancel(std::function<void()> callback);
  void RemoveOnCancel(int64_t registration);

 private:
  CallContext(std::string request_id, absl::Duration deadline, const Clock& clock);

  const std::string request_id_;
  const absl::Duration deadline_;
  const Clock& clock_;

  mutable std::mutex mutex_;
  bool cancelled_ = false;
  int64_t next_registration_ = 1;
  std::map<int64_t, std::function<void()>> callbacks_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_CALL_CONTEXT_H_
