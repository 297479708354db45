// Finds out whether each measuring rank has a core of its own. Called by `RunProbe` on the back end
// `cpu`.

#ifndef PARPLAN_PROFILER_AGENT_PROBE_CORE_SHARING_H_
#define PARPLAN_PROFILER_AGENT_PROBE_CORE_SHARING_H_

#include <string>

#include "absl/status/statusor.h"
#include "executor/device/comm/communicator.h"

namespace parplan {

// Returns one sentence for the readers of a profile about ranks that shared or were not bound to
// cores; empty if each is bound to a core of its own. All ranks must call it, from the threads that
// measure. `control` joins all ranks in host memory; its errors are returned.
absl::StatusOr<std::string> CoreSharingNote(Communicator& control);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PROBE_CORE_SHARING_H_
