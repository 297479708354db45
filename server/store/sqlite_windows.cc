// Measured windows of executions in the SQLite store.

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "server/store/sqlite_store.h"
#include "server/store/store_errors.h"

namespace parplan {
namespace {

using Role = SqliteConnection::Role;

struct ExecutionKey {
  int64_t sequence = 0;
  ExecutionState state = ExecutionState::kRunning;
  int64_t window_count = 0;
  int64_t byte_count = 0;
  bool is_abandoned = false;
};

// Reads the state of an execution. NOT_FOUND (RESOURCE_NOT_FOUND).
absl::StatusOr<ExecutionKey> FindExecution(SqliteConnection& connection, absl::string_view name) {
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement find,
      connection.Prepare("SELECT sequence, state, window_count, byte_count, abandoned "
                         "FROM executions WHERE name = ?1"));
  PARPLAN_ASSIGN_OR_RETURN(const bool found, find.Bind(1, name).Step());
  if (!found) return NotStoredError("execution", name);
  return ExecutionKey{.sequence = find.Integer(0),
                      .state = static_cast<ExecutionState>(find.Integer(1)),
                      .window_count = find.Integer(2),
                      .byte_count = find.Integer(3),
                      .is_abandoned = find.Integer(4) != 0};
}

// Windows that were new, and their bytes.
struct Added {
  int64_t window_count = 0;
  int64_t byte_count = 0;
};

// Inserts windows.
absl::StatusOr<Added> Insert(SqliteConnection& connection, int64_t execution,
                             absl::Span<const WindowRecord> windows) {
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement insert,
      connection.Prepare("INSERT INTO windows (execution, rank, first_step, step_count, "
                         "median_step_nanoseconds, peak_memory_bytes, items, bytes) "
                         "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) "
                         "ON CONFLICT (execution, rank, first_step) DO NOTHING"));
  Added added;
  for (const WindowRecord& window : windows) {
    insert.Reset();
    insert.Bind(1, execution)
        .Bind(2, int64_t{window.rank})
        .Bind(3, window.first_step)
        .Bind(4, int64_t{window.step_count})
        .Bind(5, absl::ToInt64Nanoseconds(window.median_step_duration))
        .Bind(6, window.peak_memory_bytes)
        .BindBlob(7, window.items)
        .BindBlob(8, window.bytes);
    PARPLAN_RETURN_IF_ERROR(insert.Run());
    if (connection.ChangeCount() == 0) continue;
    ++added.window_count;
    added.byte_count += WindowByteCount(window);
  }
  return added;
}

absl::Status AddToCounts(SqliteConnection& connection, int64_t execution, const Added& added,
                         absl::Time report_time) {
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement update,
      connection.Prepare("UPDATE executions SET window_count = window_count + ?2, "
                         "byte_count = byte_count + ?3, report_time = max(report_time, ?4) "
                         "WHERE sequence = ?1"));
  update.Bind(1, execution)
      .Bind(2, added.window_count)
      .Bind(3, added.byte_count)
      .Bind(4, report_time);
  return update.Run();
}

absl::Status RunAgain(SqliteConnection& connection, int64_t execution) {
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement update,
      connection.Prepare("UPDATE executions SET state = ?2, end_time = ?3, failure_reason = '', "
                         "abandoned = 0 WHERE sequence = ?1"));
  update.Bind(1, execution)
      .Bind(2, static_cast<int64_t>(ExecutionState::kRunning))
      .Bind(3, absl::InfiniteFuture());
  return update.Run();
}

}  // namespace

absl::StatusOr<AppendResult> SqliteStore::AppendWindows(absl::string_view execution,
                                                        absl::Span<const WindowRecord> windows,
                                                        const ExecutionLimits& limits,
                                                        absl::Time report_time) {
  const std::lock_guard<std::mutex> lock(writer_mutex_);
  PARPLAN_ASSIGN_OR_RETURN(SqliteTransaction transaction,
                           SqliteTransaction::Begin(*writer_, Role::kWriter));
  PARPLAN_ASSIGN_OR_RETURN(const ExecutionKey key, FindExecution(*writer_, execution));
  if (key.state != ExecutionState::kRunning && !key.is_abandoned) {
    return ExecutionStateError(execution, key.state);
  }
  PARPLAN_ASSIGN_OR_RETURN(const Added added, Insert(*writer_, key.sequence, windows));
  const int64_t duplicate_count = static_cast<int64_t>(windows.size()) - added.window_count;
  // Duplicates alone need no write and cannot exceed the limits.
  if (added.window_count == 0) return AppendResult{.duplicate_count = duplicate_count};
  PARPLAN_RETURN_IF_ERROR(
      CheckExecutionLimits(execution,
                           {.window_count = key.window_count + added.window_count,
                            .byte_count = key.byte_count + added.byte_count},
                           limits));
  PARPLAN_RETURN_IF_ERROR(AddToCounts(*writer_, key.sequence, added, report_time));
  if (key.is_abandoned) {
    PARPLAN_RETURN_IF_ERROR(RunAgain(*writer_, key.sequence));
  }
  PARPLAN_RETURN_IF_ERROR(transaction.Commit());
  return AppendResult{.stored_count = added.window_count, .duplicate_count = duplicate_count};
}

absl::StatusOr<int64_t> SqliteStore::WindowCount(absl::string_view execution) {
  const Reader reader(this);
  PARPLAN_ASSIGN_OR_RETURN(const ExecutionKey key, FindExecution(*reader, execution));
  return key.window_count;
}

absl::StatusOr<std::vector<WindowRecord>> SqliteStore::ListWindows(absl::string_view execution,
                                                                   WindowParts parts) {
  const Reader reader(this);
  PARPLAN_ASSIGN_OR_RETURN(const ExecutionKey key, FindExecution(*reader, execution));
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement rows,
      reader->Prepare("SELECT rank, first_step, step_count, median_step_nanoseconds, "
                      "peak_memory_bytes, items, bytes FROM windows WHERE execution = ?1 "
                      "ORDER BY rank, first_step"));
  rows.Bind(1, key.sequence);
  std::vector<WindowRecord> windows;
  windows.reserve(static_cast<size_t>(key.window_count));
  while (true) {
    PARPLAN_ASSIGN_OR_RETURN(const bool found, rows.Step());
    if (!found) return windows;
    windows.push_back({.rank = static_cast<int32_t>(rows.Integer(0)),
                       .first_step = rows.Integer(1),
                       .step_count = static_cast<int32_t>(rows.Integer(2)),
                       .median_step_duration = absl::Nanoseconds(rows.Integer(3)),
                       .peak_memory_bytes = rows.Integer(4),
                       .items = rows.Blob(5),
                       .bytes = parts == WindowParts::kAll ? rows.Blob(6) : std::string()});
  }
}

}  // namespace parplan
