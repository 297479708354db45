// Aggregates samples into windows and leaves them as files, which `WindowSpool`
// (profiler-agent/drift) reads. `PassiveRecorder` does both.

#ifndef PARPLAN_PROFILER_AGENT_PASSIVE_PASSIVE_WINDOWS_H_
#define PARPLAN_PROFILER_AGENT_PASSIVE_PASSIVE_WINDOWS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "profiler-agent/passive/operation_tracker.h"

namespace parplan {

// One window of samples. Not thread-safe.
class PassiveWindow {
 public:
  // Limits of one window: number of shapes, and durations kept for each shape, of which the newest
  // stay. They bound a window to about 2 MB of memory. Not measured.
  static constexpr size_t kMaxShapes = 256;
  static constexpr size_t kMaxDurations = 1024;

  // Adds a sample, or drops and counts it if its shape would be one too many.
  void Add(const PassiveSample& sample);
  // Returns whether no sample was added.
  bool is_empty() const { return shapes_.empty(); }
  // Number of samples dropped because of `kMaxShapes`.
  int64_t lost_count() const { return lost_count_; }

  // Returns the window as a `MeasuredWindow` of the contract in JSON, with `number` as its first
  // step and for each shape the median and 90th percentile of the durations kept, and the count of
  // all its samples. Lost samples are not mentioned. Written by hand: the plugin lives in other
  // people's processes and must not bring libraries along.
  std::string ToJson(int rank, int64_t number) const;

 private:
  struct Durations {
    int64_t count = 0;
    std::vector<int64_t> nanoseconds;
  };
  std::map<PassiveShape, Durations> shapes_;
  int64_t lost_count_ = 0;
};

// Writes `text` to `folder` under `name`, completely or not at all, unless `max_files` files are
// waiting there already; replaces a file of that name. Returns false if it was not written, for
// whatever reason. Follows no symbolic link. The name gets the ending `.window.json`, which alone
// counts as waiting.
bool LeaveFile(const std::string& folder, const std::string& name, const std::string& text,
               int max_files);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PASSIVE_PASSIVE_WINDOWS_H_
