// The text of an error, for events and for the server. The daemon and its link probe use it.

#ifndef PARPLAN_PROFILER_AGENT_DAEMON_STATUS_TEXT_H_
#define PARPLAN_PROFILER_AGENT_DAEMON_STATUS_TEXT_H_

#include <string>

#include "absl/status/status.h"

namespace parplan {

// Returns the message without the code.
inline std::string StatusText(const absl::Status& status) { return std::string(status.message()); }

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_DAEMON_STATUS_TEXT_H_
