// Notes by which rank 0 of parplan-exec reports its executions to its launcher, so that the
// launcher can close them at the server if the rank is killed. A note is a line, `opened` or
// `closed` and the name of the execution. Rank 0 writes notes (rank_run.cc), and the launcher reads
// them (main.cc).

#ifndef PARPLAN_EXECUTOR_EXEC_EXECUTION_NOTES_H_
#define PARPLAN_EXECUTOR_EXEC_EXECUTION_NOTES_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "clients/cpp/execution_sink.h"

namespace parplan {

// The event that a note reports of an execution: the server has opened it, or has closed it.
enum class ExecutionEvent { kOpened, kClosed };

// Writes a note to `descriptor` (RankEnvironment::result_descriptor); does nothing if that is
// negative. Ignores errors, which mean that the launcher is gone. Any thread may call it, since a
// note is one write.
void NoteExecution(int descriptor, ExecutionEvent event, const std::string& execution);

// Returns the executions that are opened and not closed in `notes`, the text of all notes, in the
// order of their opening. A last line without an end is ignored, and so is a line of another form.
std::vector<std::string> LeftOpen(absl::string_view notes);

// Reports to the server that the execution failed; blocks for little more than `timeout`, and as
// long as `connect` does. Makes at least one attempt; each takes at most 5 s. OK also if the
// execution has ended already. The error of `connect`, which is called once, and NOT_FOUND and
// INVALID_ARGUMENT of the server come at once. Any other error is tried again for `timeout`, with
// pauses of 0.2 s that double; then DEADLINE_EXCEEDED with the last error.
absl::Status FailExecution(
    const std::function<absl::StatusOr<std::unique_ptr<ExecutionSink>>()>& connect,
    const std::string& execution, const std::string& reason, absl::Duration timeout);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_EXEC_EXECUTION_NOTES_H_
