// The file in which a program writes the port it listens on, for scripts that wait for it. The
// server, the agent and the sidecar write one if asked to.

#ifndef PARPLAN_BASE_SERVICE_SHELL_PORT_FILE_H_
#define PARPLAN_BASE_SERVICE_SHELL_PORT_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace parplan {

// Writes the number and a newline to `path`, whole or not at all. Replaces a file that is there,
// and nothing removes it when the program ends: a script that waits for the file must delete the
// one of an earlier run first. Does nothing if `path` is empty. Blocks on the disk.
//
// Returns UNAVAILABLE with no `Reason`, naming the file, if it cannot be written; what was there is
// then unchanged.
absl::Status WritePortFile(const std::string& path, int port);

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_SHELL_PORT_FILE_H_
