// Leaves what a rank measures of collectives for the agent of its node, and never holds the
// rank up.

#ifndef PARPLAN_EXECUTOR_WINDOWS_WINDOW_LEAVER_H_
#define PARPLAN_EXECUTOR_WINDOWS_WINDOW_LEAVER_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "parplan/v1/execution.pb.h"

namespace parplan {

// Files `*.window.json` in a folder, the agent's `--spool-dir`, each a `MeasuredWindow` in proto
// JSON that comes by renaming. Works on a thread of its own, of low priority and on any core.
// What can't be left is lost, and the rank goes on.
class WindowLeaver {
 public:
  // Files that may wait in the folder, of whomever, and windows for their file.
  static constexpr int kMaxFileCount = 200;
  static constexpr size_t kMaxQueueLength = 64;

  // `name` begins the names of the files; a random part follows. The folder is not made.
  WindowLeaver(std::string folder, std::string name);
  // Leaves what waits.
  ~WindowLeaver();

  // Returns at once. Only the collectives of the window are left; without them nothing is.
  void Add(const v1::MeasuredWindow& window);
  // Leaves what waits; to be called once, and nothing added afterwards. Gives the number of
  // windows that were lost: full queue or folder, no such folder, no right or room to write.
  int64_t Finish();

 private:
  void Work();

  const std::string folder_;
  const std::string name_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<v1::MeasuredWindow> queue_;
  bool is_finishing_ = false;
  int64_t lost_count_ = 0;
  std::thread thread_;
};

// Leaves a window there, whole or not at all. False where it can't, or where `max_file_count`
// files are waiting already.
bool LeaveWindow(const std::string& folder, const std::string& name,
                 const v1::MeasuredWindow& window, int max_file_count);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_WINDOWS_WINDOW_LEAVER_H_
