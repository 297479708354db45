// The modes of parplan-agent that need no server: measure once into files, or print the inventory.
// main.cc calls it.

#ifndef PARPLAN_PROFILER_AGENT_MAIN_ONCE_H_
#define PARPLAN_PROFILER_AGENT_MAIN_ONCE_H_

#include "absl/status/status.h"
#include "profiler-agent/main/settings.h"

namespace parplan {

// Completes settings from the node and the files they name: device count, models, and the release
// of PyTorch if it is measured. INVALID_ARGUMENT (SPEC_INVALID) naming the flag or the file;
// FAILED_PRECONDITION (TOPOLOGY_MISMATCH) if the node has no such device; the errors of
// TorchVersion without parplan-torch or PyTorch; INTERNAL if hwloc cannot read the machine. To be
// called before `MeasureOnce` and `RunDaemon`.
absl::Status CompleteSettings(Settings& settings);

// Measures once and writes --out and --topology-out, each completely or not at all; `-` is standard
// output. Prints a summary to standard error. Returns the errors of WholeProbe,
// ReadInventory and MeasureNode (a refusal of a busy node among them); UNAVAILABLE if a file or
// standard output cannot be written. SIGINT and SIGTERM end it with CANCELLED.
absl::Status MeasureOnce(const Settings& settings);

// Prints the hardware of the node, its fingerprint, and why GPUs are missing or busy, to standard
// output. Returns the errors of ReadInventory (node_inventory.h); UNAVAILABLE if standard output
// cannot be written.
absl::Status PrintInventory(const Settings& settings);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_MAIN_ONCE_H_
