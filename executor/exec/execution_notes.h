// What rank 0 tells its launcher of its executions, so that none of them runs on at the server
// when the rank is killed.

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

enum class ExecutionEvent { kOpened, kClosed };

// Writes a line to RankEnvironment::result_descriptor; nothing where that is -1. From any
// thread, whole lines.
void NoteExecution(int descriptor, ExecutionEvent event, const std::string& execution);

// Executions that `notes`, all that was written, opened and did not close, in their order.
std::vector<std::string> LeftOpen(absl::string_view notes);

// Tells the server that the job failed. Tries again while it cannot be reached, for `timeout`.
// OK too where the server has closed the execution already; DEADLINE_EXCEEDED with the last
// trouble, NOT_FOUND, INVALID_ARGUMENT.
absl::Status FailExecution(
    const std::function<absl::StatusOr<std::unique_ptr<ExecutionSink>>()>& connect,
    const std::string& execution, const std::string& reason, absl::Duration timeout);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_EXEC_EXECUTION_NOTES_H_
