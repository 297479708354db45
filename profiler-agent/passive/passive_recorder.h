// What the plugin keeps while any communicator lives: operations under way, their samples,
// and a thread that leaves windows for the agent.

#ifndef PARPLAN_PROFILER_AGENT_PASSIVE_PASSIVE_RECORDER_H_
#define PARPLAN_PROFILER_AGENT_PASSIVE_PASSIVE_RECORDER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "profiler-agent/passive/operation_tracker.h"
#include "profiler-agent/passive/passive_windows.h"

namespace parplan {

struct PassiveOptions {
  // Where windows are left.
  std::string folder;
  // Begins the names of files; different for every process of the machine.
  std::string prefix;
  int rank = 0;
  std::chrono::milliseconds window = std::chrono::seconds(10);
  // Files that may wait for the agent.
  int max_files = 200;
};

class PassiveRecorder {
 public:
  explicit PassiveRecorder(PassiveOptions options);
  // Leaves what is there.
  ~PassiveRecorder();

  PassiveRecorder(const PassiveRecorder&) = delete;
  PassiveRecorder& operator=(const PassiveRecorder&) = delete;

  // Safe to use from any thread; no call waits.
  OperationTracker& operations() { return operations_; }
  void ChannelDone(uint64_t operation);

 private:
  void Run();
  // Adds up what there is, and leaves the window where `leaves`. One that fails is dropped.
  void Collect(bool leaves) noexcept;
  void Drain();
  void Leave();

  const PassiveOptions options_;
  OperationTracker operations_;
  SampleQueue samples_;
  // Of the thread.
  PassiveWindow window_;
  int64_t window_count_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_ending_ = false;  // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PASSIVE_PASSIVE_RECORDER_H_
