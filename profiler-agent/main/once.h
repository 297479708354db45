// The modes of parplan-agent that need no server: measure once into files, or print the inventory.
// main.cc calls it.

#ifndef PARPLAN_PROFILER_AGENT_MAIN_ONCE_H_
#define PARPLAN_PROFILER_AGENT_MAIN_ONCE_H_

#include "absl/status/status.h"
#include "profiler-agent/main/settings.h"

namespace parplan {

// Completes settings from the node and the files they name: device count, models, and the release
// of PyTorch if it is measured. INVALID_ARGUMENT (SPEC_INVALID) naming the flag or the file, or for
// a machine of unknown memory; FAILED_PRECONDITION (TOPOLOGY_MISMATCH) if the node lacks the
// devices: none, too few GPUs, several kinds, or one split into instances; the errors of
// TorchVersion without parplan-torch or PyTorch; INTERNAL if hwloc cannot read the machine. To be
// called before `MeasureOnce` and `RunDaemon`.
absl::Status CompleteSettings(Settings& settings);

// Measures once and writes --out and then --topology-out, each completely or not at all; `-` is
// standard output. No topology is written if its path is empty; if it cannot be made or written,
// the profile stays. Blocks as long as MeasureNode. Prints a summary to standard error. While the
// measuring programs run, SIGINT and SIGTERM end them, and this returns CANCELLED. Returns the
// errors of WholeProbe, ReadInventory, MeasureNode (a busy node's refusal among them:
// `IsBusyRefusal`) and TopologyOf; UNAVAILABLE if a file or standard output cannot be written.
absl::Status MeasureOnce(const Settings& settings);

// Prints the hardware of the node, its fingerprint, and why GPUs are missing or busy, to standard
// output. Needs no `CompleteSettings`. Returns the errors of ReadInventory (node_inventory.h);
// UNAVAILABLE if standard output cannot be written.
absl::Status PrintInventory(const Settings& settings);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_MAIN_ONCE_H_
