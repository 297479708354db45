// Tries again and again whether the server answers, so that a deaf one does not look well for ever.
// server/main runs one: health then says NOT_SERVING, and a server that stays deaf ends, so that
// its supervisor starts it again.

#ifndef PARPLAN_SERVER_RPC_HEARING_WATCH_H_
#define PARPLAN_SERVER_RPC_HEARING_WATCH_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace parplan {

// A thread that probes until it is destroyed.
class HearingWatch {
 public:
  // How often to probe, and when to give up.
  struct Options {
    // Between the end of a probe and the next one.
    absl::Duration interval = absl::Seconds(5);
    // How long no probe may succeed, counted from the last success or the beginning. Looked at
    // only after a probe that failed.
    absl::Duration max_deafness = absl::Seconds(30);
  };

  // Begins at once; the first probe comes after `interval`. All are called from the thread of the
  // watch, must not be empty and must not destroy it. `probe` returns in a bounded time.
  // `on_change` gets the first error after a success, and the first success after an error; the
  // beginning counts as a success. `on_deaf` is called once no probe has succeeded for
  // `max_deafness`, and again after each failure that follows.
  HearingWatch(std::function<absl::Status()> probe, const Options& options,
               std::function<void(const absl::Status&)> on_change, std::function<void()> on_deaf);

  // Waits for the probe in progress and what it calls.
  ~HearingWatch();

  HearingWatch(const HearingWatch&) = delete;
  HearingWatch& operator=(const HearingWatch&) = delete;

 private:
  void Loop();

  const std::function<absl::Status()> probe_;
  const Options options_;
  const std::function<void(const absl::Status&)> on_change_;
  const std::function<void()> on_deaf_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_ending_ = false;  // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_HEARING_WATCH_H_
