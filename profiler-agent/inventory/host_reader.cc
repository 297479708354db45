#include "profiler-agent/inventory/host_reader.h"

#include <hwloc.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "executor/device/backend/machine.h"

namespace parplan {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using OwnedTopology = std::unique_ptr<hwloc_topology, DestroyTopology>;

int CountOf(hwloc_topology_t topology, hwloc_obj_type_t type) {
  return std::max(hwloc_get_nbobjs_by_type(topology, type), 0);
}

// Returns the model name that the CPU back end of executor/device uses too.
std::string CpuModel(hwloc_topology_t topology) {
  for (const hwloc_obj_type_t type : {HWLOC_OBJ_PACKAGE, HWLOC_OBJ_MACHINE}) {
    const hwloc_obj_t object = hwloc_get_obj_by_type(topology, type, 0);
    const char* const text =
        object == nullptr ? nullptr : hwloc_obj_get_info_by_name(object, "CPUModel");
    if (text == nullptr) continue;
    std::string model = text;
    absl::StripAsciiWhitespace(&model);
    if (!model.empty()) return model;
  }
  return "unknown";
}

}  // namespace

absl::StatusOr<HostFacts> ReadHost(const HostReaderOptions& options) {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return absl::InternalError("hwloc cannot start");
  const OwnedTopology topology(made);
  if (!options.topology_file.empty() &&
      hwloc_topology_set_xml(made, options.topology_file.c_str()) != 0) {
    return FieldError(Reason::kSpecInvalid, "topology_file",
                      absl::StrCat(options.topology_file, " is not a file written by lstopo"));
  }
  if (hwloc_topology_load(made) != 0) {
    if (options.topology_file.empty()) return absl::InternalError("hwloc cannot read this machine");
    return FieldError(Reason::kSpecInvalid, "topology_file",
                      absl::StrCat("hwloc cannot read the machine in ", options.topology_file));
  }
  HostFacts host;
  host.cpu_model = CpuModel(made);
  host.socket_count = CountOf(made, HWLOC_OBJ_PACKAGE);
  host.thread_count = CountOf(made, HWLOC_OBJ_PU);
  host.core_count = CountOf(made, HWLOC_OBJ_CORE);
  if (host.core_count == 0) host.core_count = host.thread_count;
  host.memory_bytes = static_cast<int64_t>(hwloc_get_root_obj(made)->total_memory);
  for (int i = 0; i < CountOf(made, HWLOC_OBJ_NUMANODE); ++i) {
    const hwloc_obj_t node = hwloc_get_obj_by_type(made, HWLOC_OBJ_NUMANODE, i);
    NumaNode numa;
    numa.memory_bytes = static_cast<int64_t>(node->attr->numanode.local_memory);
    numa.core_count =
        std::max(hwloc_get_nbobjs_inside_cpuset_by_type(made, node->cpuset, HWLOC_OBJ_CORE), 0);
    host.numa_nodes.push_back(numa);
  }
  // For this machine the counts are those of the CPU back end.
  if (options.topology_file.empty()) {
    host.thread_count = UsableProcessorCount();
    const int64_t memory = MachineMemory().count();
    if (memory > 0) host.memory_bytes = memory;
  }
  utsname name = {};
  if (options.topology_file.empty() && ::uname(&name) == 0) host.kernel = name.release;
  return host;
}

double HostLoad() {
  double load = 0.0;
  return ::getloadavg(&load, 1) == 1 ? load : 0.0;
}

}  // namespace parplan
