// Runs one measurement of this node: checks that it is free, measures, and builds a valid profile.
// The daemon (daemon/measuring.h, daemon/link_probe.h) and `parplan-agent --once` call it.

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
#include "profiler-agent/measure/node_job.h"

namespace parplan {

// How to measure, and who is kept informed.
struct MeasurementOptions {
  DeviceType device_type = DeviceType::kCpu;
  InventoryOptions inventory;
  // Path of parplan-agent-probe; empty for the one in the folder of this program.
  std::string probe_program;
  // Measure even if other processes use the node; the notes of the profile then mention it.
  bool even_if_busy = false;
  // Link to the namespace of this process's ids (HasIdsOfTheNode).
  std::string pid_namespace = "/proc/self/ns/pid";
  // Bind each rank to a core of its own; only if devices are cores.
  bool pins = true;
  // Whether SIGINT and SIGTERM end the ranks; for one measurement of the process at a time.
  bool heeds_signals = false;
  // Called with each line that a rank prints to standard error, on a thread of the job; empty: the
  // line goes to this process's standard error, after the rank's number.
  std::function<void(int rank, absl::string_view line)> on_line;
  // Called from the measuring thread with the job once it runs, so that it can be stopped, and with
  // null when it has ended, until which the pointer is valid; in PyTorch for the job of each model.
  // Not called for a job that cannot start. May be empty.
  std::function<void(NodeJob*)> on_job;
};

// Returns whether an error means that the node was busy and was not measured.
bool IsBusyRefusal(const absl::Status& status);

// Reads model files (docs/files.md). INVALID_ARGUMENT (SPEC_INVALID) naming file, field and rule,
// also for a file that cannot be read or has more than 64 MiB.
absl::StatusOr<std::vector<ModelSpec>> ReadModels(const std::vector<std::string>& paths);

// Runs the ranks of `plan` that belong to this node and returns a profile that the server accepts.
// It holds what the ranks measured, the release of this program, driver and library versions, and
// in its notes the fingerprint of the node. The profile is empty if rank 0 is on another node. For
// a plan of PyTorch `parplan-torch profile` runs once for each model that has layers to measure, or
// for the first model if none has.
//
// First FAILED_PRECONDITION (TOPOLOGY_MISMATCH) if the node lacks the devices, then, unless
// `even_if_busy`, FAILED_PRECONDITION, for which IsBusyRefusal holds, if it is busy, or later, if
// another process begins to use its GPUs, at which it looks every second. GPUs are busy as of
// `inventory`, so it should have been read just before. Then the errors of ProbeJob: NOT_FOUND or
// PERMISSION_DENIED for the program, UNAVAILABLE, RESOURCE_EXHAUSTED, INTERNAL or
// FAILED_PRECONDITION (with no `Reason`) if it cannot be started, ABORTED naming a rank that
// failed, CANCELLED if stopped, DEADLINE_EXCEEDED after the plan's time budget plus 3 minutes (in
// PyTorch plus 15 minutes, for each model), DATA_LOSS without a profile or with one of another
// runtime; INVALID_ARGUMENT (SPEC_INVALID) for a malformed time budget or, in PyTorch, time limit
// of layers; INTERNAL if the profile breaks a rule. Blocks until then; safe to call from any
// thread.
absl::StatusOr<v1::Profile> MeasureNode(const NodeInventory& inventory,
                                        const agent::v1::ProbePlan& plan,
                                        const MeasurementOptions& options);

// Returns the topology of this node alone, with the device kind as spelled in `profile`. The errors
// of ToTopology.
absl::StatusOr<v1::ClusterTopology> TopologyOf(const NodeInventory& inventory,
                                               const TopologyOptions& options,
                                               const v1::Profile& profile);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_MEASURE_MEASUREMENT_H_
