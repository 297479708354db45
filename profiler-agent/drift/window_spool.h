// A folder in which programs on this node leave what they measured in passing.

#ifndef PARPLAN_PROFILER_AGENT_DRIFT_WINDOW_SPOOL_H_
#define PARPLAN_PROFILER_AGENT_DRIFT_WINDOW_SPOOL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "parplan/v1/profile.pb.h"

namespace parplan {

// Files `*.window.json`, each a `MeasuredWindow` in proto JSON, put there by renaming. Of one
// thread.
class WindowSpool {
 public:
  static constexpr int kMaxFilesAtOnce = 1000;

  explicit WindowSpool(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  // Collectives of the windows that are there, kMaxFilesAtOnce at most, which are then gone.
  // What is no window is renamed to `*.refused`. A file that cannot be taken away is passed over,
  // so that none counts twice.
  std::vector<v1::CollectiveTiming> Take();
  // Whether the last `Take` left files for another.
  bool has_more() const { return has_more_; }
  int64_t refused_count() const { return refused_count_; }

 private:
  const std::string path_;
  int64_t refused_count_ = 0;
  bool has_more_ = false;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_DRIFT_WINDOW_SPOOL_H_
