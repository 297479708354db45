// What a thread with nothing to do waits for.

#ifndef PARPLAN_PROFILER_AGENT_DAEMON_WAKE_SET_H_
#define PARPLAN_PROFILER_AGENT_DAEMON_WAKE_SET_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace parplan {

// Signals, files that come into a folder, and calls of other threads, in one wait without
// looking again and again.
class WakeSet {
 public:
  struct Causes {
    // SIGINT or SIGTERM; 0 for none.
    int signal = 0;
    bool has_new_files = false;
    bool is_called = false;
  };

  // Blocks SIGINT and SIGTERM in this thread and those it starts from now on: make it before
  // any. `folder` may be empty. FAILED_PRECONDITION where the folder cannot be watched.
  static absl::StatusOr<std::unique_ptr<WakeSet>> Create(const std::string& folder);
  ~WakeSet();

  // At most so long. Of one thread.
  Causes Wait(absl::Duration longest);
  // Wakes it. From any thread.
  void Call();

 private:
  WakeSet(int signals, int files, int calls) : signals_(signals), files_(files), calls_(calls) {}

  const int signals_;
  // -1 where no folder is watched.
  const int files_;
  const int calls_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_DAEMON_WAKE_SET_H_
