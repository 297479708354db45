// Functions that are called at a time, for calls that may wait only so long. `RpcServer` owns one;
// calls set alarms for their deadlines and for silent streams.

#ifndef PARPLAN_SERVER_RPC_ALARM_THREAD_H_
#define PARPLAN_SERVER_RPC_ALARM_THREAD_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/time/time.h"

namespace parplan {

// One thread for all alarms. Safe to use from any thread; setting and removing an alarm takes
// logarithmic time.
class AlarmThread {
 public:
  // The result of `Set`; names an alarm for `Remove`.
  using Alarm = std::pair<absl::Duration, uint64_t>;

  AlarmThread();
  // Drops the alarms that are set, waits for the one that rings, and joins the thread.
  ~AlarmThread();

  AlarmThread(const AlarmThread&) = delete;
  AlarmThread& operator=(const AlarmThread&) = delete;

  // Calls `ring`, which must not block or throw, on the thread of the alarms, `wait` from now on
  // the steady clock of the machine; at once, but on that thread too, if `wait` is not above 0.
  // It may set and remove alarms. It must own what it touches: it may have begun when `Remove` is
  // called. REQUIRES: `wait` is finite; not checked.
  Alarm Set(absl::Duration wait, std::function<void()> ring);

  // Drops an alarm that has not begun to ring. Does nothing for others, and waits for none.
  void Remove(const Alarm& alarm);

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_ending_ = false;
  uint64_t next_number_ = 0;
  std::map<Alarm, std::function<void()>> alarms_;
  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_ALARM_THREAD_H_
