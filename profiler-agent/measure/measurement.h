// Runs one measurement of this node: checks that it is free, measures, and builds a valid profile.

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
  // Path of parplan-agent-probe; empty for the one in the folder of this program.
  std::string probe_program;
  // Measure even if other processes use the node; the notes of the profile then mention it.
  bool even_if_busy = false;
  // Link given to HasIdsOfTheNode.
  std::string pid_namespace = "/proc/self/ns/pid";
  // Bind each rank to a core of its own; only if devices are cores.
  bool pins = true;
  bool heeds_signals = false;
  // Called with each line a rank prints, as RankProcessesOptions::on_line.
  std::function<void(int rank, absl::string_view line)> on_line;
  // Called from the measuring thread with the job while it runs, so that it can be stopped, and
  // with null when it has ended.
  std::function<void(ProbeJob*)> on_job;
};

// Returns whether an error means that the node was busy and was not measured.
bool IsBusyRefusal(const absl::Status& status);

// Reads model files (docs/files.md). INVALID_ARGUMENT naming file, field and rule.
absl::StatusOr<std::vector<ModelSpec>> ReadModels(const std::vector<std::string>& paths);

// Runs the ranks of `plan` that belong to this node and returns a profile that the server accepts.
// It holds what the ranks measured, the release of this program, driver and library versions, and
// in its notes the fingerprint of the node. The profile is empty if rank 0 is on another node.
//
// FAILED_PRECONDITION, for which IsBusyRefusal holds, if the node is busy; otherwise the errors of
// ToTopology and ProbeJob. Blocks for at most the plan's time budget plus 3 minutes.
absl::StatusOr<v1::Profile> MeasureNode(const NodeInventory& inventory,
                                        const agent::v1::ProbePlan& plan,
                                        const MeasurementOptions& options);

// Returns the topology of this node alone, with the device kind as spelled in `profile`.
absl::StatusOr<v1::ClusterTopology> TopologyOf(const NodeInventory& inventory,
                                               const TopologyOptions& options,
                                               const v1::Profile& profile);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_MEASURE_MEASUREMENT_H_
