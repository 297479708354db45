// parplan-agent for people without a server: measures and writes files.

#ifndef PARPLAN_PROFILER_AGENT_MAIN_ONCE_H_
#define PARPLAN_PROFILER_AGENT_MAIN_ONCE_H_

#include "absl/status/status.h"
#include "profiler-agent/main/settings.h"

namespace parplan {

// Fills in what follows from the node and the files: devices, models. INVALID_ARGUMENT naming
// the flag or the file, FAILED_PRECONDITION where there is no such device.
absl::Status CompleteSettings(Settings& settings);

// Measures, writes --out and --topology-out, each whole or not at all, and tells on standard
// output what it measured. The errors of MeasureNode; UNAVAILABLE where a file cannot be
// written.
absl::Status MeasureOnce(const Settings& settings);

// Tells on standard output what the node is made of.
absl::Status TellInventory(const Settings& settings);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_MAIN_ONCE_H_
