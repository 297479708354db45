// Adds samples up and leaves them as files for the agent (profiler-agent/drift reads them).

#ifndef PARPLAN_PROFILER_AGENT_PASSIVE_PASSIVE_WINDOWS_H_
#define PARPLAN_PROFILER_AGENT_PASSIVE_PASSIVE_WINDOWS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "profiler-agent/passive/operation_tracker.h"

namespace parplan {

// One window. Not safe to use from several threads.
class PassiveWindow {
 public:
  // Bounds of one window: shapes, and durations kept of each, the latest ones.
  static constexpr size_t kMaxShapes = 256;
  static constexpr size_t kMaxDurations = 1024;

  void Add(const PassiveSample& sample);
  bool is_empty() const { return shapes_.empty(); }
  // Samples of shapes beyond `kMaxShapes`.
  int64_t lost_count() const { return lost_count_; }

  // A `MeasuredWindow` of the contract in its JSON form: medians, 90th percentiles and counts
  // of each shape. Written by hand: the plugin lives in other people's processes and brings
  // no library along.
  std::string ToJson(int rank, int64_t number) const;

 private:
  struct Durations {
    int64_t count = 0;
    std::vector<int64_t> nanoseconds;
  };
  std::map<PassiveShape, Durations> shapes_;
  int64_t lost_count_ = 0;
};

// Leaves `text` in `folder` as `name`, whole or not at all, unless `max_files` files are
// waiting there already. False when it was not left.
bool LeaveFile(const std::string& folder, const std::string& name, const std::string& text,
               int max_files);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PASSIVE_PASSIVE_WINDOWS_H_
