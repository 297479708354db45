#include "profiler-agent/measure/node_load.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace parplan {

std::string BusyCpuText(double load, int core_count, int rank_count) {
  // The load average of a node without jobs: daemons and this agent. Not measured.
  constexpr double kUsualLoad = 0.5;
  // With more ranks than cores, the ranks share cores anyway.
  const int wanted = std::min(rank_count, core_count);
  if (load <= core_count - wanted + kUsualLoad) return "";
  return absl::StrFormat("the load is %.2f on %d cores, of which the measurement needs %d", load,
                         core_count, wanted);
}

std::string BusyText(const NodeInventory& inventory, DeviceType type, int rank_count) {
  if (type == DeviceType::kCuda) return BusyGpuText(inventory.gpus);
  return BusyCpuText(HostLoad(), inventory.host.core_count, rank_count);
}

bool HasIdsOfTheNode(const std::string& link) {
  // Number that Linux gives the initial namespace (PROC_PID_INIT_INO).
  constexpr char kFirst[] = "pid:[4026531836]";
  std::error_code error;
  return std::filesystem::read_symlink(link, error) == kFirst;
}

std::string StrangersOn(const std::vector<GpuState>& gpus, const std::vector<pid_t>& own,
                        bool has_ids_of_the_node) {
  std::set<int64_t> processes;
  for (const GpuState& gpu : gpus) {
    if (gpu.processes.has_value()) processes.insert(gpu.processes->begin(), gpu.processes->end());
  }
  std::set<int64_t> strangers = processes;
  for (const pid_t rank : own) strangers.erase(rank);
  if (strangers.empty()) return "";
  // If at least one rank was recognised, the ids are those of this namespace.
  const bool are_ids_known = has_ids_of_the_node || strangers.size() < processes.size();
  if (are_ids_known) {
    return absl::StrCat("process ", *strangers.begin(), " has begun to use the GPUs");
  }
  if (processes.size() <= own.size()) return "";
  return absl::StrCat(processes.size(), " processes use the GPUs, but the measurement has only ",
                      own.size());
}

}  // namespace parplan
