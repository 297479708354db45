// A file that holds what a child process of the agent is to measure. `probe_job.cc` and
// `torch_job.cc` write one each and unlink it when the child has ended.

#ifndef PARPLAN_PROFILER_AGENT_MEASURE_TEMPORARY_FILE_H_
#define PARPLAN_PROFILER_AGENT_MEASURE_TEMPORARY_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parplan {

// Writes `content` to a new file in the folder for temporary files, which TMPDIR names, and returns
// its path; the caller unlinks it. `prefix` begins its name. Only this user may read it. Returns
// UNAVAILABLE if there is no such folder or the file cannot be written whole; no file is left then.
// Blocks on the disk. Any thread, while no other changes the environment.
absl::StatusOr<std::string> WriteTemporaryFile(absl::string_view prefix, absl::string_view content);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_MEASURE_TEMPORARY_FILE_H_
