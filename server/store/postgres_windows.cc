// Measured windows of executions in the PostgreSQL store.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/store/postgres_pool.h"
#include "server/store/postgres_store.h"
#include "server/store/postgres_values.h"
#include "server/store/store_errors.h"

namespace parplan {
namespace {

// Number of windows per statement: many per round trip, with a text of a few megabytes.
constexpr size_t kBatchSize = 500;

struct ExecutionKey {
  int64_t sequence = 0;
  ExecutionState state = ExecutionState::kRunning;
  int64_t window_count = 0;
  int64_t byte_count = 0;
  bool is_abandoned = false;
};

// Reads the state of an execution. `lock` is empty or a locking clause. NOT_FOUND
// (RESOURCE_NOT_FOUND).
absl::StatusOr<ExecutionKey> FindExecution(pqxx::transaction_base& transaction,
                                           absl::string_view name, const char* lock) {
  const pqxx::result rows = transaction.exec_params(
      absl::StrCat("SELECT sequence, state, window_count, byte_count, abandoned FROM executions "
                   "WHERE name = $1 ",
                   lock),
      std::string(name));
  if (rows.empty()) return NotStoredError("execution", name);
  return ExecutionKey{.sequence = IntegerOf(rows[0][0]),
                      .state = static_cast<ExecutionState>(IntegerOf(rows[0][1])),
                      .window_count = IntegerOf(rows[0][2]),
                      .byte_count = IntegerOf(rows[0][3]),
                      .is_abandoned = IntegerOf(rows[0][4]) != 0};
}

// Windows that were new, and their bytes.
struct Added {
  int64_t window_count = 0;
  int64_t byte_count = 0;
};

// Returns the text of a PostgreSQL array with one element per window.
template <typename Element>
std::string ArrayOf(absl::Span<const WindowRecord> windows, const Element& element) {
  std::string text = "{";
  for (const WindowRecord& window : windows) {
    absl::StrAppend(&text, text.size() > 1 ? "," : "", element(window));
  }
  return text + "}";
}

std::string HexOf(const std::string& bytes) {
  return absl::StrCat("\"\\\\x", absl::BytesToHexString(bytes), "\"");
}

// Inserts windows and adds those that were new, and their bytes, to `added`.
void Insert(pqxx::transaction_base& transaction, int64_t execution,
            absl::Span<const WindowRecord> windows, Added& added) {
  const pqxx::result rows = transaction.exec_params(
      "WITH added AS (INSERT INTO windows (execution, rank, first_step, step_count, "
      "median_step_nanoseconds, peak_memory_bytes, items, bytes) "
      "SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], "
      "$6::bigint[], $7::bytea[], $8::bytea[]) "
      "ON CONFLICT (execution, rank, first_step) DO NOTHING "
      "RETURNING octet_length(items) + octet_length(bytes) AS byte_count) "
      "SELECT count(*), coalesce(sum(byte_count), 0)::bigint FROM added",
      execution, ArrayOf(windows, [](const auto& window) { return window.rank; }),
      ArrayOf(windows, [](const auto& window) { return window.first_step; }),
      ArrayOf(windows, [](const auto& window) { return window.step_count; }),
      ArrayOf(
          windows,
          [](const auto& window) { return absl::ToInt64Nanoseconds(window.median_step_duration); }),
      ArrayOf(windows, [](const auto& window) { return window.peak_memory_bytes; }),
      ArrayOf(windows, [](const auto& window) { return HexOf(window.items); }),
      ArrayOf(windows, [](const auto& window) { return HexOf(window.bytes); }));
  const int64_t window_count = IntegerOf(rows[0][0]);
  added.window_count += window_count;
  added.byte_count += IntegerOf(rows[0][1]) + window_count * kWindowRowBytes;
}

void RunAgain(pqxx::transaction_base& transaction, int64_t execution) {
  transaction.exec_params(
      "UPDATE executions SET state = $2, end_time = $3, failure_reason = '', abandoned = 0 "
      "WHERE sequence = $1",
      execution, static_cast<int64_t>(ExecutionState::kRunning),
      ToStoredTime(absl::InfiniteFuture()));
}

}  // namespace

absl::StatusOr<AppendResult> PostgresStore::AppendWindows(absl::string_view execution,
                                                          absl::Span<const WindowRecord> windows,
                                                          const ExecutionLimits& limits,
                                                          absl::Time report_time) {
  AppendResult result;
  PARPLAN_RETURN_IF_ERROR(pool_->Write([&](pqxx::transaction_base& transaction) -> absl::Status {
    // Reports of one execution run one after the other, so that the count is right.
    PARPLAN_ASSIGN_OR_RETURN(const ExecutionKey key,
                             FindExecution(transaction, execution, "FOR UPDATE"));
    if (key.state != ExecutionState::kRunning && !key.is_abandoned) {
      return ExecutionStateError(execution, key.state);
    }
    Added added;
    for (size_t begin = 0; begin < windows.size(); begin += kBatchSize) {
      Insert(transaction, key.sequence, windows.subspan(begin, kBatchSize), added);
    }
    result = AppendResult{.stored_count = added.window_count};
    result.duplicate_count = static_cast<int64_t>(windows.size()) - result.stored_count;
    // Duplicates alone need no write and cannot exceed the limits.
    if (result.stored_count == 0) return absl::OkStatus();
    PARPLAN_RETURN_IF_ERROR(
        CheckExecutionLimits(execution,
                             {.window_count = key.window_count + added.window_count,
                              .byte_count = key.byte_count + added.byte_count},
                             limits));
    transaction.exec_params(
        "UPDATE executions SET window_count = window_count + $2, byte_count = byte_count + $3, "
        "report_time = greatest(report_time, $4) WHERE sequence = $1",
        key.sequence, added.window_count, added.byte_count, ToStoredTime(report_time));
    if (key.is_abandoned) RunAgain(transaction, key.sequence);
    return absl::OkStatus();
  }));
  return result;
}

absl::StatusOr<int64_t> PostgresStore::WindowCount(absl::string_view execution) {
  int64_t count = 0;
  PARPLAN_RETURN_IF_ERROR(pool_->Read([&](pqxx::transaction_base& transaction) -> absl::Status {
    PARPLAN_ASSIGN_OR_RETURN(const ExecutionKey key, FindExecution(transaction, execution, ""));
    count = key.window_count;
    return absl::OkStatus();
  }));
  return count;
}

absl::StatusOr<std::vector<WindowRecord>> PostgresStore::ListWindows(absl::string_view execution,
                                                                     WindowParts parts) {
  std::vector<WindowRecord> windows;
  const bool all = parts == WindowParts::kAll;
  PARPLAN_RETURN_IF_ERROR(pool_->Read([&](pqxx::transaction_base& transaction) -> absl::Status {
    PARPLAN_ASSIGN_OR_RETURN(const ExecutionKey key, FindExecution(transaction, execution, ""));
    const pqxx::result rows = transaction.exec_params(
        absl::StrCat("SELECT rank, first_step, step_count, median_step_nanoseconds, "
                     "peak_memory_bytes, items, ",
                     all ? "bytes" : "''::bytea",
                     " FROM windows WHERE execution = $1 ORDER BY rank, first_step"),
        key.sequence);
    windows.clear();
    windows.reserve(rows.size());
    for (const pqxx::row& row : rows) {
      windows.push_back({.rank = static_cast<int32_t>(IntegerOf(row[0])),
                         .first_step = IntegerOf(row[1]),
                         .step_count = static_cast<int32_t>(IntegerOf(row[2])),
                         .median_step_duration = absl::Nanoseconds(IntegerOf(row[3])),
                         .peak_memory_bytes = IntegerOf(row[4]),
                         .items = BytesOf(row[5]),
                         .bytes = all ? BytesOf(row[6]) : std::string()});
    }
    return absl::OkStatus();
  }));
  return windows;
}

}  // namespace parplan
