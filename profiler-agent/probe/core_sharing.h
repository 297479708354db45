// Whether ranks that measure have a core each.

#ifndef PARPLAN_PROFILER_AGENT_PROBE_CORE_SHARING_H_
#define PARPLAN_PROFILER_AGENT_PROBE_CORE_SHARING_H_

#include <string>

#include "absl/status/statusor.h"
#include "executor/device/comm/communicator.h"

namespace parplan {

// What readers of a profile should know of the cores of its ranks, as one sentence; empty where
// each is bound to a core of its own. All ranks call it, from the threads that measure; `control`
// is over all of them and the host's memory.
absl::StatusOr<std::string> CoreSharingNote(Communicator& control);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PROBE_CORE_SHARING_H_
