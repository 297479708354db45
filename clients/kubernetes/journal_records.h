// Names and contents of the records of a journal (window_journal.h) on disk. Pure. `WindowJournal`
// writes and reads them.

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

// The name of a record: an execution, or windows of one. In the order of names, executions come
// before all windows, and the windows of one execution in the order of arrival (for numbers below
// 10^16, which have as many digits).
struct JournalRecordName {
  bool is_windows = false;
  // The journal's number of the execution; for windows, of the execution they belong to.
  int64_t execution_number = 0;
  // Grows from record to record of one execution, with gaps; 0 for an execution.
  int64_t order = 0;
};

// Return the names of records, from which `ParseRecordName` reads the numbers. REQUIRES, unchecked:
// numbers are at least 0.
std::string ExecutionRecordName(int64_t execution_number);
std::string WindowsRecordName(int64_t execution_number, int64_t order);
// Returns nothing if `name` is not the name of a record.
std::optional<JournalRecordName> ParseRecordName(absl::string_view name);

// The request with which the job opened an execution, and the execution's state.
struct ExecutionContent {
  v1::CreateExecutionRequest request;
  v1::Execution execution;
};

// Write messages one after the other, each after its length, and read them back. DATA_LOSS, without
// a reason, for a text that is cut short or broken. An empty text holds no windows. Whether a
// record is whole is checked by its digest (clients/delivery/record_folder.h).
std::string WriteExecution(const ExecutionContent& content);
absl::StatusOr<ExecutionContent> ParseExecution(const std::string& text);
std::string WriteWindows(absl::Span<const v1::MeasuredWindow> windows);
absl::StatusOr<std::vector<v1::MeasuredWindow>> ParseWindows(const std::string& text);

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_JOURNAL_RECORDS_H_
