// A folder through which programs on this node hand measured windows to the agent: parplan's
// executor and the NCCL plugin (profiler-agent/passive) write them. The daemon takes them and
// compares their times with the profile (find_drift.h).

#ifndef PARPLAN_PROFILER_AGENT_DRIFT_WINDOW_SPOOL_H_
#define PARPLAN_PROFILER_AGENT_DRIFT_WINDOW_SPOOL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "parplan/v1/profile.pb.h"

namespace parplan {

// Reader of the files `*.window.json`. Each holds a `MeasuredWindow` in proto JSON of at most 1 MiB
// and appears by renaming, so it is complete. Must be used from one thread.
class WindowSpool {
 public:
  // Files of one `Take`, which bounds its time and memory. Not measured for other values.
  static constexpr int kMaxFilesAtOnce = 1000;

  explicit WindowSpool(std::string path) : path_(std::move(path)) {}

  // Returns the path of the folder.
  const std::string& path() const { return path_; }
  // Removes up to kMaxFilesAtOnce files in the order of their names, and returns the collectives of
  // those that are windows; none if the folder cannot be read. A file that is not a window is
  // renamed to `*.refused` and counted. A file that can be neither removed nor renamed is skipped,
  // so that no window counts twice.
  std::vector<v1::CollectiveTiming> Take();
  // Returns whether the last `Take` left files for the next call; false before the first.
  bool has_more() const { return has_more_; }
  // Files refused since construction.
  int64_t refused_count() const { return refused_count_; }

 private:
  const std::string path_;
  int64_t refused_count_ = 0;
  bool has_more_ = false;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_DRIFT_WINDOW_SPOOL_H_
