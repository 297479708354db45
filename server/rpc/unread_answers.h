// Bounds what answers that clients do not read cost the server. gRPC keeps an answer until its
// client takes it: with a window of HTTP/2 that is full and pings that are answered, for ever.
// `RpcServer` has one; `Call` uses it.

#ifndef PARPLAN_SERVER_RPC_UNREAD_ANSWERS_H_
#define PARPLAN_SERVER_RPC_UNREAD_ANSWERS_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/rpc/alarm_thread.h"

namespace parplan {

// The answers that gRPC has and that were not taken yet. One that is not taken in time is broken
// off. While all of them have too many bytes, so is the oldest answer of the reader that has most
// bytes, so that one that reads nothing pushes out its own answers alone. Safe to use from any
// thread.
class UnreadAnswers {
 public:
  // `alarms` outlives the object. `max_wait` is how long an answer may wait, `max_bytes` how many
  // bytes all may have; one alone may have more. REQUIRES: `max_wait` is finite; not checked.
  UnreadAnswers(AlarmThread& alarms, absl::Duration max_wait, int64_t max_bytes);

  UnreadAnswers(const UnreadAnswers&) = delete;
  UnreadAnswers& operator=(const UnreadAnswers&) = delete;

  // Counts an answer of so many bytes for `reader`, a name of who is to read it, to be called
  // before gRPC gets it. Returns a number above 0 for `Remove`. The new answer never gives way to
  // itself, and one without bytes gives way to none. `break_off` is called once at most, on the
  // thread of the alarms, without a lock, and may call methods of this object.
  int64_t Add(absl::string_view reader, int64_t bytes, std::function<void()> break_off);

  // Forgets an answer, and returns whether its `break_off` was called; waits for it, unless it
  // calls this itself, and it is not called after the return. Returns false for 0 and for an answer
  // that was removed.
  bool Remove(int64_t number);

  // Returns the bytes of the answers that are counted and were not chosen to be broken off.
  int64_t bytes() const;

 private:
  struct Answer {
    std::string reader;
    int64_t bytes;
    std::function<void()> break_off;
    bool is_chosen;  // To be broken off; its bytes are not counted any more.
    bool is_broken_off;
    AlarmThread::Alarm alarm;
  };
  // Sums the answers of a reader that were not chosen and have bytes.
  struct Reader {
    int64_t bytes = 0;
    std::map<int64_t, int64_t> bytes_of;  // By number, and so by age.
  };
  // Owned by alarms too, which may ring while this object ends.
  struct State {
    // Stops counting an answer that was not chosen. REQUIRES: `mutex` is held.
    void Uncount(int64_t number, const Answer& answer);

    mutable std::mutex mutex;
    int64_t last_number = 0;                // Guarded by mutex, as the rest.
    int64_t bytes = 0;                      // Of all `readers`.
    std::map<int64_t, Answer> answers;      // By age: numbers grow.
    std::map<std::string, Reader> readers;  // Those that have bytes.
    int64_t breaking_off = 0;               // The number whose `break_off` runs; 0 for none.
    std::thread::id breaking_thread;        // On which it runs.
    std::condition_variable broken_off;     // Notified when it has run.
  };

  // Breaks the answer off, unless it is gone.
  static void BreakOff(State& state, int64_t number);

  // Returns the number of the answer that is to give way to another; 0 if there is none.
  // REQUIRES: the mutex of `state` is held.
  static int64_t NextVictim(const State& state, int64_t newest);

  AlarmThread& alarms_;
  const absl::Duration max_wait_;
  const int64_t max_bytes_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_UNREAD_ANSWERS_H_
