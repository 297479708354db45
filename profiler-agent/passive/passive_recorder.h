// The plugin's state while any communicator lives: running operations, their samples, and a thread
// that writes windows for the agent. nccl_profiler.cc calls it from the functions that NCCL calls.

#ifndef PARPLAN_PROFILER_AGENT_PASSIVE_PASSIVE_RECORDER_H_
#define PARPLAN_PROFILER_AGENT_PASSIVE_PASSIVE_RECORDER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "profiler-agent/passive/operation_tracker.h"
#include "profiler-agent/passive/passive_windows.h"

namespace parplan {

// The folder of the windows, and the length of each.
struct PassiveOptions {
  // Existing folder in which windows are left, as `PREFIX-NUMBER.window.json`. While it is missing,
  // windows are lost.
  std::string folder;
  // Prefix of file names; must differ between processes of the machine.
  std::string prefix;
  // Rank in the job, written into the windows.
  int rank = 0;
  // Time that one window covers, above 0, which is not checked. A window ends up to a second later
  // than that.
  std::chrono::milliseconds window = std::chrono::seconds(10);
  // Operations are recorded in the first `recorded` of every `period`, or always if that is no
  // shorter. Both are above 0, which is not checked.
  std::chrono::milliseconds recorded = std::chrono::seconds(1);
  std::chrono::milliseconds period = std::chrono::seconds(10);
  // Switches recording on and off; called by the recorder's thread, not at first, when it is on.
  // Must not throw. May be empty.
  std::function<void(bool is_on)> switch_recording;
  // Files that may wait for the agent, those of other processes among them; further windows are
  // dropped.
  int max_files = 200;
};

// Whether operations are recorded, and for how long that stays so.
struct PassiveSampling {
  bool is_on = true;
  std::chrono::milliseconds remaining;
};
// Returns the state at `elapsed` after the start, at least 0. `remaining` is above 0.
PassiveSampling SamplingAt(std::chrono::milliseconds elapsed, std::chrono::milliseconds recorded,
                           std::chrono::milliseconds period);

// Records operations and writes a window of their times at regular intervals, if there were any. A
// window that cannot be written is lost without notice. Made by the NCCL plugin (nccl_profiler.cc),
// once for all communicators of the process, with options from environment variables.
class PassiveRecorder {
 public:
  // Starts a thread. Throws std::bad_alloc or std::system_error if there is no memory or thread.
  explicit PassiveRecorder(PassiveOptions options);
  // Writes the last window, if any sample came, and waits for the thread, which may be writing.
  // REQUIRES, unchecked: no other thread is in a call, or makes one later.
  ~PassiveRecorder();

  PassiveRecorder(const PassiveRecorder&) = delete;
  PassiveRecorder& operator=(const PassiveRecorder&) = delete;

  // `ChannelDone` and all methods of `operations()` are safe to use from any thread and do not
  // block. Call `ChannelDone` here, and not that of the tracker, which it calls: it keeps the
  // sample, unless too many wait (SampleQueue).
  OperationTracker& operations() { return operations_; }
  void ChannelDone(uint64_t operation);

 private:
  void Run();
  // Aggregates the queued samples, and writes the window if `leaves`. A window that fails is
  // dropped.
  void Collect(bool leaves) noexcept;
  void Drain();
  void Leave();

  const PassiveOptions options_;
  OperationTracker operations_;
  SampleQueue samples_;
  // Used by the thread only.
  PassiveWindow window_;
  int64_t window_count_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_ending_ = false;  // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PASSIVE_PASSIVE_RECORDER_H_
