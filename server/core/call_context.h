// The state of a call apart from its request: an id for logs, who called, a deadline, and whether
// it was cancelled. `Call` (server/rpc/call.h) makes one for each call.

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
#include "server/access/caller.h"

namespace parplan {

// The state of one call, shared by the transport, which cancels it, and the core, which asks
// whether it still waits. Safe to use from any thread.
class CallContext {
 public:
  // Creates the context of a call whose deadline is `time_left` from now on the steady clock;
  // infinite for a call without a deadline. `caller` is not null; a call of this program itself may
  // do everything. `host` is that of the client, empty if it has none. `clock` is used only here.
  // Never null.
  static std::shared_ptr<CallContext> Create(
      std::string request_id, absl::Duration time_left, const Clock& clock = Clock::Real(),
      std::shared_ptr<const Caller> caller = Caller::Itself(), const std::string& host = "");

  // Returns the context of a call of this program itself, which has no deadline.
  static std::shared_ptr<CallContext> OfItself();

  // Whoever made the call, and what it may do.
  const std::shared_ptr<const Caller>& caller() const { return caller_; }

  // Whoever shares bounds of memory with this call: the identity of a restricted caller, even of
  // one without roles or a name; the host of an unrestricted one, empty if it has none.
  const std::string& holder() const { return holder_; }

  // Id for logs, from the caller's metadata or made by the server. Not the `request_id` of the
  // request message.
  const std::string& request_id() const { return request_id_; }

  // Deadline on the steady clock; infinite for a call without one.
  absl::Duration deadline() const { return deadline_; }

  // Marks the call as cancelled: its connection broke, the caller cancelled, or the transport saw
  // the deadline pass. Runs the callbacks of `OnCancel` once, on this thread; a second call does
  // nothing.
  void Cancel();
  // Returns whether `Cancel` was called.
  bool cancelled() const;

  // Registers a callback for the cancellation of the call; runs it at once, on this thread, if the
  // call is cancelled already. Returns a number for `RemoveOnCancel`, 0 if it has run already. A
  // callback that has begun on another thread may outlast `RemoveOnCancel`, so it must own what it
  // touches.
  int64_t OnCancel(std::function<void()> callback);
  // Drops a callback that has not begun. Does nothing for any other number.
  void RemoveOnCancel(int64_t registration);

 private:
  CallContext(std::string request_id, absl::Duration deadline, std::shared_ptr<const Caller> caller,
              const std::string& host);

  const std::string request_id_;
  const absl::Duration deadline_;
  const std::shared_ptr<const Caller> caller_;
  const std::string holder_;

  mutable std::mutex mutex_;
  bool cancelled_ = false;
  int64_t next_registration_ = 1;
  std::map<int64_t, std::function<void()>> callbacks_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_CALL_CONTEXT_H_
