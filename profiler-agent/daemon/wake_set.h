// Lets a thread sleep until a signal, a new file or another thread wakes it. The daemon waits by
// it; its link probe and its measurements wake it.

#ifndef PARPLAN_PROFILER_AGENT_DAEMON_WAKE_SET_H_
#define PARPLAN_PROFILER_AGENT_DAEMON_WAKE_SET_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace parplan {

// One wait for signals, for files that appear in a folder, and for calls from other threads,
// without polling.
class WakeSet {
 public:
  // The causes that ended a wait; none is set if the time was over.
  struct Causes {
    // SIGINT or SIGTERM, the last one that came; 0 if there was none.
    int signal = 0;
    // Whether a file was moved into the folder, or closed in it after writing.
    bool has_new_files = false;
    // Whether `Call` was called.
    bool is_called = false;
  };

  // Watches `folder`, which may be empty for none. Blocks SIGINT and SIGTERM in this thread and in
  // threads that it starts later, so it must be called before any thread is started. They stay
  // blocked, also after an error and when the set is destroyed.
  // FAILED_PRECONDITION (SPEC_INVALID) if the folder cannot be watched, RESOURCE_EXHAUSTED if there
  // are no file descriptors.
  static absl::StatusOr<std::unique_ptr<WakeSet>> Create(const std::string& folder);
  ~WakeSet();

  // Waits for a cause, for at most `longest` or 24 hours; does not wait if `longest` is not above
  // 0. May return without a cause, also earlier. Causes from before the call count too, and each
  // is returned once. Must be called from one thread.
  Causes Wait(absl::Duration longest);
  // Wakes the waiting thread. Safe to call from any thread.
  void Call();

 private:
  WakeSet(int signals, int files, int calls) : signals_(signals), files_(files), calls_(calls) {}

  // File descriptors; `files_` is -1 if no folder is watched.
  const int signals_;
  const int files_;
  const int calls_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_DAEMON_WAKE_SET_H_
