#include "profiler-agent/measure/clock_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace parplan {
namespace {

// Utilisation from which a clock counts: an idle GPU lowers its clock. Not measured.
constexpr int kLoadPercent = 50;
// Clocks that differ by less are usual, since a GPU changes them in small steps all the time. A
// larger share of the median is worth a warning.
constexpr double kMoved = 0.1;

struct Limit {
  // A bit of nvmlClocksEventReasons.
  uint64_t bit;
  const char* words;
  // Whether it says that a GPU is not as fast as its kind: heat and power supplies, in contrast to
  // the power limit, which every GPU of the kind reaches.
  bool is_fault;
};
constexpr Limit kLimits[] = {
    {0x2, "a clock that was set", false},
    {0x4, "its power limit", false},
    {0x8, "a slowdown by hardware", true},
    {0x10, "the clock of its group", false},
    {0x20, "heat", true},
    {0x40, "heat of hardware", true},
    {0x80, "its power supply", true},
    {0x100, "a clock of its display", false},
};

}  // namespace

void ClockLog::Add(const GpuSet& gpus) {
  const size_t count =
      std::min({static_cast<size_t>(device_count_), gpus.devices.size(), gpus.states.size()});
  for (size_t k = 0; k < count; ++k) {
    const GpuDevice& device = gpus.devices[k];
    const GpuState& state = gpus.states[k];
    if (state.utilization_percent < kLoadPercent || state.sm_clock_mhz <= 0) continue;
    Log& log = logs_[device.index];
    log.max_clock_mhz = device.max_sm_clock_mhz;
    log.power_limit_milliwatts = device.power_limit_milliwatts;
    log.clocks.push_back(state.sm_clock_mhz);
    log.largest_power_milliwatts = std::max(log.largest_power_milliwatts, state.power_milliwatts);
    log.largest_temperature = std::max(log.largest_temperature, state.temperature_celsius);
    for (const Limit& limit : kLimits) {
      if ((state.clock_limits & limit.bit) != 0) ++log.limits[limit.bit];
    }
  }
}

std::vector<std::string> ClockLog::Notes() const {
  std::vector<std::string> notes;
  for (const auto& [index, log] : logs_) {
    std::vector<int> clocks = log.clocks;
    std::sort(clocks.begin(), clocks.end());
    const int median = clocks[clocks.size() / 2];
    std::string note = absl::StrFormat("GPU %d ran at %d to %d MHz under load, median %d", index,
                                       clocks.front(), clocks.back(), median);
    if (log.max_clock_mhz > 0) absl::StrAppend(&note, ", of at most ", log.max_clock_mhz);
    if (log.largest_power_milliwatts > 0) {
      absl::StrAppend(&note, "; it took up to ", log.largest_power_milliwatts / 1000, " W");
      if (log.power_limit_milliwatts > 0) {
        absl::StrAppend(&note, " of ", log.power_limit_milliwatts / 1000);
      }
    }
    if (log.largest_temperature > 0) {
      absl::StrAppend(&note, ", at up to ", log.largest_temperature, " degrees Celsius");
    }
    std::vector<std::string> limits;
    bool has_fault = false;
    for (const Limit& limit : kLimits) {
      const auto found = log.limits.find(limit.bit);
      if (found == log.limits.end()) continue;
      has_fault = has_fault || limit.is_fault;
      limits.push_back(absl::StrCat(limit.words, " in ", found->second));
    }
    if (!limits.empty()) {
      absl::StrAppend(&note, "; of ", clocks.size(), " looks its clock was limited by ",
                      absl::StrJoin(limits, ", by "));
    }
    absl::StrAppend(&note, ".");
    const double moved = static_cast<double>(clocks.back() - clocks.front()) / median;
    if (has_fault) {
      absl::StrAppend(&note,
                      " WARNING: times are those of a GPU that is slower than its kind; see "
                      "to its cooling and power, and measure again.");
    } else if (moved > kMoved) {
      absl::StrAppend(&note,
                      absl::StrFormat(" WARNING: its clock moved by %.0f %% while times were "
                                      "measured; those of short work can be too small by "
                                      "as much.",
                                      100.0 * moved));
    }
    notes.push_back(std::move(note));
  }
  return notes;
}

}  // namespace parplan
