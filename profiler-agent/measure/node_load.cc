#include "profiler-agent/measure/node_load.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace parplan {

std::string BusyCpuText(double load, int core_count, int rank_count) {
  constexpr double kUsualLoad = 0.5;
  // More ranks than cores share them anyway.
  const int wanted = std::min(rank_count, core_count);
  if (load <= core_count - wanted + kUsualLoad) return "";
  return absl::StrFormat("the load is %.2f on %d cores, of which the measurement needs %d", load,
                         core_count, wanted);
}

std::string BusyText(const NodeInventory& inventory, DeviceType type, int rank_count) {
  if (type == DeviceType::kCuda) return BusyGpuText(inventory.gpus);
  return BusyCpuText(HostLoad(), inventory.host.core_count, rank_count);
}

}  // namespace parplan
