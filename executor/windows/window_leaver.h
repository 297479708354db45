// Leaves a rank's times of collectives for the agent of its node, without ever delaying the rank.
// `parplan-exec` has one on each rank that is given a spool folder.

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

// Writes files `*.window.json` into a folder, the agent's `--spool-dir`, each a `MeasuredWindow` in
// proto JSON that appears by renaming. Works on a thread of its own, of low priority and on any
// core. Windows that cannot be written are lost, and the rank goes on.
class WindowLeaver {
 public:
  // Limits on the files that wait in the folder, of all writers (approximately, if these write at
  // the same time), and on the windows that wait to be written, so that a node without an agent
  // does not fill its disk. Values not measured.
  static constexpr int kMaxFileCount = 200;
  static constexpr size_t kMaxQueueLength = 64;

  // `name`, without a slash, begins the names of the files; a random part follows. If the folder
  // does not exist or cannot be written, all windows are lost, which only `Finish` reports.
  WindowLeaver(std::string folder, const std::string& name);
  // Calls `Finish` if it was not called.
  ~WindowLeaver();

  // Hands over a window and returns at once. It is written without its phases and memory items; a
  // window without collectives is ignored, and one that finds the queue full is lost. May be called
  // from any thread.
  void Add(const v1::MeasuredWindow& window);
  // Writes the windows that wait and returns the number of windows lost: because the queue or the
  // folder was full, or the folder could not be written. Called once, with no `Add` after it.
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

// Writes a window into `folder` as `name` with the ending `.window.json`, for WindowLeaver and
// tests; the file is there completely or not at all, and replaces one of that name. Returns false
// if that fails, or if `max_file_count` files with that ending wait there already.
bool LeaveWindow(const std::string& folder, const std::string& name,
                 const v1::MeasuredWindow& window, int max_file_count);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_WINDOWS_WINDOW_LEAVER_H_
