// The clocks of GPUs while they are measured, for the notes of a profile. `MeasureNode` keeps one.

#ifndef PARPLAN_PROFILER_AGENT_MEASURE_CLOCK_LOG_H_
#define PARPLAN_PROFILER_AGENT_MEASURE_CLOCK_LOG_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "profiler-agent/inventory/gpu_reader.h"

namespace parplan {

// Collects what `ReadGpus` says about the GPUs of a node, about once a second, and sums it up. A
// GPU lowers its clock within a second of full load, to stay within its power limit, so times of
// short work are shorter than the same work takes in training; the notes say by how much the clock
// moved. For one thread at a time.
class ClockLog {
 public:
  // `device_count` is the number of GPUs that are measured: the first that are visible.
  explicit ClockLog(int device_count) : device_count_(device_count) {}

  // Adds the states of the measured GPUs at one moment. A GPU that is used for less than half of
  // its last sample period is not under load, and its clock then is not that of a measurement: it
  // is left out.
  void Add(const GpuSet& gpus);

  // Returns sentences, those of each GPU on one line, in the order of the driver's numbers: the
  // smallest, median and largest clock of the multiprocessors under load, the power, the
  // temperature and what limited the clock; and a warning if the clock moved by more than a tenth
  // of the median or was lowered by heat or by the power supply. Numbers that the driver does not
  // report are left out. Empty if no GPU was seen under load with a known clock.
  std::vector<std::string> Notes() const;

 private:
  struct Log {
    int max_clock_mhz = 0;
    int64_t power_limit_milliwatts = 0;
    // [look], in MHz.
    std::vector<int> clocks;
    int64_t largest_power_milliwatts = 0;
    int largest_temperature = 0;
    // Looks at which the driver named each bit of GpuState::clock_limits.
    std::map<uint64_t, int> limits;
  };
  const int device_count_;
  // By the driver's number of the GPU.
  std::map<int, Log> logs_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_MEASURE_CLOCK_LOG_H_
