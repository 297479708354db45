// Writes a result to the path that a user named: the record of a run (`parplan-exec`), a profile
// (`parplan-agent --once`), a port (`WritePortFile`).

#ifndef PARPLAN_BASE_SYSTEM_OUTPUT_FILE_H_
#define PARPLAN_BASE_SYSTEM_OUTPUT_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/system/posix_file.h"

namespace parplan {

// Writes `contents` to `path`. If `path` leads to a terminal, a pipe or a device, also by links,
// the contents are written into it and `options` are ignored: `AtomicWrite` alone would have root
// replace /dev/null by a file. Otherwise a file is created or replaced as by `AtomicWrite`
// (posix_file.h), which replaces a link to a file itself.
//
// Blocks, without a limit while a pipe has no reader. Errors are those of `ErrnoToStatus`, for a
// socket too; after an error of a pipe or a device a part may be written. A program that does not
// ignore SIGPIPE is ended by it if the reader of a pipe goes away.
absl::Status WriteOutputFile(const std::string& path, absl::string_view contents,
                             const AtomicWriteOptions& options = {});

}  // namespace parplan

#endif  // PARPLAN_BASE_SYSTEM_OUTPUT_FILE_H_
