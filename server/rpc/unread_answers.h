// Bounds what answers that clients do not read cost the server. gRPC keeps an answer until its
// client takes it: with a window of HTTP/2 that is full and pings that are answered, for ever.
// `RpcServer` has one; `Call` uses it.

#ifndef PARPLAN_SERVER_RPC_UNREAD_ANSWERS_H_
#define PARPLAN_SERVER_RPC_UNREAD_ANSWERS_H_

#include <grpcpp/server_context.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "absl/time/time.h"
#include "server/rpc/alarm_thread.h"

namespace parplan {

// The answers that gRPC has and that were not taken yet. One that is not taken in time is broken
// off (`TryCancel`), and so are the oldest while all of them have too many bytes: those wait for
// the slowest readers. Safe to use from any thread.
class UnreadAnswers {
 public:
  // `alarms` outlives the object. `max_wait` is how long an answer may wait, `max_bytes` how many
  // bytes all may have; one alone may have more. REQUIRES: `max_wait` is finite; not checked.
  UnreadAnswers(AlarmThread& alarms, absl::Duration max_wait, int64_t max_bytes);

  UnreadAnswers(const UnreadAnswers&) = delete;
  UnreadAnswers& operator=(const UnreadAnswers&) = delete;

  // Counts an answer of so many bytes, to be called before gRPC gets it. Returns a number above 0
  // for `Remove`, which must be called before `context` ends. No call is broken off before the
  // return, nor on this thread.
  int64_t Add(grpc::CallbackServerContext& context, int64_t bytes);

  // Forgets an answer; does nothing for 0 and for one that was removed. `context` is not touched
  // after the return. Must not be called by what `TryCancel` calls on the same thread; gRPC calls
  // no reactor there.
  void Remove(int64_t number);

  // Returns the bytes of the answers that are counted and were not broken off.
  int64_t bytes() const;

 private:
  struct Answer {
    grpc::CallbackServerContext* context;
    int64_t bytes;
    bool is_broken_off;
    AlarmThread::Alarm alarm;
  };
  // Owned by alarms too, which may ring while this object ends.
  struct State {
    mutable std::mutex mutex;
    int64_t last_number = 0;            // Guarded by mutex, as the rest.
    int64_t bytes = 0;                  // Of answers that were not broken off.
    std::map<int64_t, Answer> answers;  // By age: numbers grow.
  };

  // Breaks the answer off, unless it is gone.
  static void BreakOff(State& state, int64_t number);

  AlarmThread& alarms_;
  const absl::Duration max_wait_;
  const int64_t max_bytes_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_UNREAD_ANSWERS_H_
