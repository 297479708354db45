// Where a program tells the port that it got, to scripts that wait for it.

#ifndef PARPLAN_BASE_SERVICE_SHELL_PORT_FILE_H_
#define PARPLAN_BASE_SERVICE_SHELL_PORT_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace parplan {

// The number and a newline, whole or not at all; nothing where `path` is empty. UNAVAILABLE naming
// the file that cannot be written.
absl::Status WritePortFile(const std::string& path, int port);

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_SHELL_PORT_FILE_H_
