// One measurement of this node, from the look whether it is free to a valid profile.

#ifndef PARPLAN_PROFILER_AGENT_MEASURE_MEASUREMENT_H_
#define PARPLAN_PROFILER_AGENT_MEASURE_MEASUREMENT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parplan/agent/v1/probe_plan.pb.h"
#include "parplan/v1/profile.pb.h"
#include "parplan/v1/topology.pb.h"
#include "planner/model/model_spec.h"
#include "profiler-agent/inventory/node_inventory.h"
#include "profiler-agent/measure/probe_job.h"

namespace parplan {

struct MeasurementOptions {
  DeviceType device_type = DeviceType::kCpu;
  InventoryOptions inventory;
  // The file of parplan-agent-probe; empty: beside this program.
  std::string probe_program;
  // Measure though others work here; the profile says so.
  bool even_if_busy = false;
  // Of HasIdsOfTheNode.
  std::string pid_namespace = "/proc/self/ns/pid";
  // Each rank on a core of its own, where devices are cores.
  bool pins = true;
  bool heeds_signals = false;
  // As of RankProcessesOptions: what ranks say.
  std::function<void(int rank, absl::string_view line)> on_line;
  // Told of the job while it runs, from the thread that measures: to stop it, and null at its
  // end.
  std::function<void(ProbeJob*)> on_job;
};

// `backend` of probes.
const char* BackendName(DeviceType type);

// Whether an error is a refusal to measure a busy node.
bool IsBusyRefusal(const absl::Status& status);

// The models in these files (docs/files.md). INVALID_ARGUMENT naming file, field and rule.
absl::StatusOr<std::vector<ModelSpec>> ReadModels(const std::vector<std::string>& paths);

// Lets the ranks of `plan` that are on this node measure, and gives a profile that the server
// takes: what they measured, with this program and release, driver, libraries, and the fingerprint
// of the node in its notes; an empty one where rank 0 is on another node. FAILED_PRECONDITION, for
// which IsBusyRefusal holds, where the node is busy; the errors of ToTopology and of ProbeJob.
absl::StatusOr<v1::Profile> MeasureNode(const NodeInventory& inventory,
                                        const agent::v1::ProbePlan& plan,
                                        const MeasurementOptions& options);

// The topology of this node alone, of devices as `profile` has them.
absl::StatusOr<v1::ClusterTopology> TopologyOf(const NodeInventory& inventory,
                                               const TopologyOptions& options,
                                               const v1::Profile& profile);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_MEASURE_MEASUREMENT_H_
