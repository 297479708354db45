// Files whose names a user gave for what a program writes once: results, profiles, ports.

#ifndef PARPLAN_BASE_SYSTEM_OUTPUT_FILE_H_
#define PARPLAN_BASE_SYSTEM_OUTPUT_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/system/posix_file.h"

namespace parplan {

// Writes `contents` to `path`: into a terminal, a pipe or a device that is there, which stays, and
// else as `AtomicWrite` does. A pipe without a reader is waited for. `AtomicWrite` alone would have
// root replace /dev/null by a file. Errors are those of `AtomicWrite`; of a pipe or a device, a
// part may be written.
absl::Status WriteOutputFile(const std::string& path, absl::string_view contents,
                             const AtomicWriteOptions& options = {});

}  // namespace parplan

#endif  // PARPLAN_BASE_SYSTEM_OUTPUT_FILE_H_
