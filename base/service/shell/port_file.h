// The file in which a program writes the port it listens on, for scripts that wait for it. The
// server, the agent and the sidecar write one if asked to.

#ifndef PARPLAN_BASE_SERVICE_SHELL_PORT_FILE_H_
#define PARPLAN_BASE_SERVICE_SHELL_PORT_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace parplan {

// Writes the number and a newline, whole or not at all. Does nothing if `path` is empty.
// UNAVAILABLE naming the file if it cannot be written.
absl::Status WritePortFile(const std::string& path, int port);

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_SHELL_PORT_FILE_H_
