// The work that a server does for itself now and then, on a thread of its own: a store that does
// not answer holds up no signal. The server's end waits for the call in progress, and so for the
// store's answer or time limit; after `ServerCore::StopTaking` no further batch of records begins.
// main.cc owns one.
//
//   Upkeep upkeep({.maintain = [&] { core.Maintain(); return core.has_more_to_maintain(); },
//                  .look = [&] { state.Look(); },
//                  .maintain_interval = absl::Hours(1),
//                  .look_interval = absl::Seconds(10)});
//   while (WaitForSignal() == SIGHUP) upkeep.MaintainNow();
//   upkeep.Stop();

#ifndef PARPLAN_SERVER_MAIN_UPKEEP_H_
#define PARPLAN_SERVER_MAIN_UPKEEP_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/time/time.h"

namespace parplan {

// Safe to use from any thread.
class Upkeep {
 public:
  // The two functions are called one after the other on the thread: first `maintain`, then `look`,
  // and each again after its interval. `maintain` returns whether it left something undone, and is
  // then called again right after the next `look`. Neither may throw or be empty.
  struct Work {
    std::function<bool()> maintain;
    std::function<void()> look;
    // Time from the end of one call to the next, if nothing asks for it earlier and the other
    // function takes no longer.
    absl::Duration maintain_interval;
    absl::Duration look_interval;
  };

  explicit Upkeep(Work work);

  // Calls `Stop`, and waits for a call in progress. Not to be called on the thread of the work.
  ~Upkeep();

  Upkeep(const Upkeep&) = delete;
  Upkeep& operator=(const Upkeep&) = delete;

  // Lets `maintain` be called as soon as the thread is free, without waiting for it.
  void MaintainNow();

  // Lets no further call begin, without waiting for one in progress.
  void Stop();

 private:
  void Run();

  const Work work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_asked_ = true;     // Guarded by mutex_.
  bool is_stopped_ = false;  // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_MAIN_UPKEEP_H_
