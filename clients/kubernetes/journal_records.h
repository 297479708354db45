// The records of a journal on disk: what they are called, and what is in them.

#ifndef PARPLAN_CLIENTS_KUBERNETES_JOURNAL_RECORDS_H_
#define PARPLAN_CLIENTS_KUBERNETES_JOURNAL_RECORDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "parplan/v1/execution.pb.h"
#include "parplan/v1/execution_service.pb.h"

namespace parplan::sidecar {

// A record is of an execution, or of windows of one. By name, executions come before all windows,
// and the windows of one execution in the order in which they came.
struct JournalRecordName {
  bool is_windows = false;
  // Of the journal's own counting; that of the execution, for windows too.
  int64_t execution_number = 0;
  // Of windows.
  int64_t order = 0;
};

std::string ExecutionRecordName(int64_t execution_number);
std::string WindowsRecordName(int64_t execution_number, int64_t order);
// Absent for the name of something else.
std::optional<JournalRecordName> ParseRecordName(absl::string_view name);

// How the job asked for an execution, and how it stands.
struct ExecutionContent {
  v1::CreateExecutionRequest request;
  v1::Execution execution;
};

// Messages one after the other, each behind its length. What is read back is equal; DATA_LOSS where
// it was something else.
std::string WriteExecution(const ExecutionContent& content);
absl::StatusOr<ExecutionContent> ParseExecution(const std::string& text);
std::string WriteWindows(absl::Span<const v1::MeasuredWindow> windows);
absl::StatusOr<std::vector<v1::MeasuredWindow>> ParseWindows(const std::string& text);

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_JOURNAL_RECORDS_H_
