// Executions in the SQLite store; their windows are in sqlite_windows.cc.

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/store/page_token.h"
#include "server/store/sqlite_page.h"
#include "server/store/sqlite_store.h"
#include "server/store/store_errors.h"

namespace parplan {
namespace {

using Role = SqliteConnection::Role;

// Columns that `ReadExecution` reads, `sequence` first.
#define PARPLAN_EXECUTION_COLUMNS                                       \
  "sequence, name, plan, execution_id, request_id, state, start_time, " \
  "end_time, window_count, failure_reason, bytes, report_time, owner"

ExecutionRecord ReadExecution(const SqliteStatement& row) {
  return {.name = row.Text(1),
          .plan = row.Text(2),
          .execution_id = row.Text(3),
          .owner = row.Text(12),
          .request_id = row.Text(4),
          .state = static_cast<ExecutionState>(row.Integer(5)),
          .start_time = row.Time(6),
          .end_time = row.Time(7),
          .failure_reason = row.Text(9),
          .bytes = row.Blob(10),
          .window_count = row.Integer(8),
          .report_time = row.Time(11)};
}

absl::StatusOr<std::optional<ExecutionRecord>> ReadOne(SqliteStatement& rows) {
  PARPLAN_ASSIGN_OR_RETURN(const bool found, rows.Step());
  if (!found) return std::nullopt;
  return ReadExecution(rows);
}

absl::StatusOr<std::optional<ExecutionRecord>> FindByName(SqliteConnection& connection,
                                                          absl::string_view name) {
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement find,
      connection.Prepare("SELECT " PARPLAN_EXECUTION_COLUMNS " FROM executions WHERE name = ?1"));
  return ReadOne(find.Bind(1, name));
}

absl::StatusOr<std::optional<ExecutionRecord>> FindByRequest(SqliteConnection& connection,
                                                             const ExecutionRecord& execution) {
  if (execution.request_id.empty()) return std::nullopt;
  // The condition on '' lets SQLite use the partial index.
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement find,
      connection.Prepare("SELECT " PARPLAN_EXECUTION_COLUMNS " FROM executions "
                         "WHERE plan = ?1 AND request_id = ?2 AND request_id <> ''"));
  return ReadOne(find.Bind(1, execution.plan).Bind(2, execution.request_id));
}

absl::StatusOr<bool> PlanExists(SqliteConnection& connection, absl::string_view name) {
  PARPLAN_ASSIGN_OR_RETURN(SqliteStatement find,
                           connection.Prepare("SELECT 1 FROM plans WHERE name = ?1"));
  return find.Bind(1, name).Step();
}

absl::Status Insert(SqliteConnection& connection, const ExecutionRecord& execution) {
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement insert,
      connection.Prepare("INSERT INTO executions (name, plan, execution_id, request_id, state, "
                         "start_time, end_time, window_count, failure_reason, bytes, report_time, "
                         "owner, byte_count) "
                         "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9, ?6, ?10, ?11)"));
  insert.Bind(1, execution.name)
      .Bind(2, execution.plan)
      .Bind(3, execution.execution_id)
      .Bind(4, execution.request_id)
      .Bind(5, static_cast<int64_t>(execution.state))
      .Bind(6, execution.start_time)
      .Bind(7, execution.end_time)
      .Bind(8, execution.failure_reason)
      .BindBlob(9, execution.bytes)
      .Bind(10, execution.owner)
      .Bind(11, ExecutionByteCount(execution));
  return insert.Run();
}

// Returns whether it was failed only for its silence.
absl::StatusOr<bool> IsAbandoned(SqliteConnection& connection, absl::string_view name) {
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement find,
      connection.Prepare("SELECT 1 FROM executions WHERE name = ?1 AND abandoned = 1"));
  return find.Bind(1, name).Step();
}

absl::Status UpdateState(SqliteConnection& connection, const ExecutionRecord& execution,
                         bool is_abandoned) {
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement update,
      connection.Prepare("UPDATE executions SET state = ?2, end_time = ?3, failure_reason = ?4, "
                         "abandoned = ?5 WHERE name = ?1"));
  update.Bind(1, execution.name)
      .Bind(2, static_cast<int64_t>(execution.state))
      .Bind(3, execution.end_time)
      .Bind(4, execution.failure_reason)
      .Bind(5, int64_t{is_abandoned});
  return update.Run();
}

absl::StatusOr<std::vector<ExecutionRecord>> FindSilent(SqliteConnection& connection,
                                                        absl::Time before, int64_t limit) {
  // The literal state lets SQLite use the partial index.
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement rows,
      connection.Prepare("SELECT " PARPLAN_EXECUTION_COLUMNS " FROM executions "
                         "WHERE state = 1 AND report_time <= ?1 "
                         "ORDER BY report_time, sequence LIMIT ?2"));
  rows.Bind(1, before).Bind(2, limit);
  std::vector<ExecutionRecord> silent;
  while (true) {
    PARPLAN_ASSIGN_OR_RETURN(const bool found, rows.Step());
    if (!found) return silent;
    silent.push_back(ReadExecution(rows));
  }
}

// Returns the numbers of executions that `DeleteOldExecutions` deletes at once.
absl::StatusOr<std::vector<int64_t>> FindOld(SqliteConnection& connection, absl::Time before,
                                             int64_t limit) {
  // The literal state lets SQLite use the partial index.
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement rows,
      connection.Prepare("SELECT sequence, window_count FROM executions "
                         "WHERE state <> 1 AND end_time <= ?1 AND report_time <= ?1 "
                         "ORDER BY end_time, sequence LIMIT ?2"));
  rows.Bind(1, before).Bind(2, limit);
  std::vector<int64_t> old;
  int64_t window_count = 0;
  while (window_count < kMaxDeletedWindowCount) {
    PARPLAN_ASSIGN_OR_RETURN(const bool found, rows.Step());
    if (!found) break;
    old.push_back(rows.Integer(0));
    window_count += rows.Integer(1);
  }
  return old;
}

}  // namespace

absl::StatusOr<ExecutionRecord> SqliteStore::CreateExecution(ExecutionRecord execution) {
  const std::lock_guard<std::mutex> lock(writer_mutex_);
  PARPLAN_ASSIGN_OR_RETURN(SqliteTransaction transaction,
                           SqliteTransaction::Begin(*writer_, Role::kWriter));
  PARPLAN_ASSIGN_OR_RETURN(std::optional<ExecutionRecord> stored,
                           FindByRequest(*writer_, execution));
  if (stored.has_value()) return *std::move(stored);
  PARPLAN_ASSIGN_OR_RETURN(const bool planned, PlanExists(*writer_, execution.plan));
  if (!planned) return NotStoredError("plan", execution.plan);
  PARPLAN_ASSIGN_OR_RETURN(stored, FindByName(*writer_, execution.name));
  if (stored.has_value()) return NameTakenError(execution.name);
  PARPLAN_RETURN_IF_ERROR(Insert(*writer_, execution));
  PARPLAN_RETURN_IF_ERROR(transaction.Commit());
  execution.window_count = 0;
  execution.report_time = execution.start_time;
  return execution;
}

absl::StatusOr<ExecutionRecord> SqliteStore::GetExecution(absl::string_view name) {
  const Reader reader(this);
  PARPLAN_ASSIGN_OR_RETURN(std::optional<ExecutionRecord> execution, FindByName(*reader, name));
  if (!execution.has_value()) return NotStoredError("execution", name);
  return *std::move(execution);
}

absl::StatusOr<Page<ExecutionRecord>> SqliteStore::ListExecutions(absl::string_view plan,
                                                                  const PageRequest& page) {
  const std::string list = absl::StrCat("executions/", plan);
  PARPLAN_ASSIGN_OR_RETURN(const PagePosition position, ReadPageRequest(list, page));
  const Reader reader(this);
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement rows,
      reader->Prepare("SELECT " PARPLAN_EXECUTION_COLUMNS " FROM executions "
                      "WHERE plan = ?1 AND sequence < ?2 ORDER BY sequence DESC"));
  rows.Bind(1, plan).Bind(2, position.before_sequence);
  return ReadPage<ExecutionRecord>(rows, list, position.page_size, ReadExecution);
}

absl::StatusOr<ExecutionRecord> SqliteStore::SetExecutionState(absl::string_view name,
                                                               ExecutionState expected,
                                                               ExecutionState state,
                                                               absl::Time end_time,
                                                               absl::string_view failure_reason) {
  const std::lock_guard<std::mutex> lock(writer_mutex_);
  PARPLAN_ASSIGN_OR_RETURN(SqliteTransaction transaction,
                           SqliteTransaction::Begin(*writer_, Role::kWriter));
  PARPLAN_ASSIGN_OR_RETURN(std::optional<ExecutionRecord> execution, FindByName(*writer_, name));
  if (!execution.has_value()) return NotStoredError("execution", name);
  PARPLAN_ASSIGN_OR_RETURN(const bool is_abandoned, IsAbandoned(*writer_, name));
  if ((is_abandoned ? ExecutionState::kRunning : execution->state) != expected) {
    return ExecutionStateError(name, execution->state);
  }
  const bool abandons = state == ExecutionState::kAbandoned;
  execution->state = abandons ? ExecutionState::kFailed : state;
  execution->end_time = end_time;
  execution->failure_reason = std::string(failure_reason);
  PARPLAN_RETURN_IF_ERROR(UpdateState(*writer_, *execution, abandons));
  PARPLAN_RETURN_IF_ERROR(transaction.Commit());
  return *std::move(execution);
}

absl::StatusOr<std::vector<ExecutionRecord>> SqliteStore::FailSilentExecutions(
    absl::Time before, absl::Time end_time, absl::string_view failure_reason, int64_t limit) {
  const std::lock_guard<std::mutex> lock(writer_mutex_);
  PARPLAN_ASSIGN_OR_RETURN(SqliteTransaction transaction,
                           SqliteTransaction::Begin(*writer_, Role::kWriter));
  PARPLAN_ASSIGN_OR_RETURN(std::vector<ExecutionRecord> silent,
                           FindSilent(*writer_, before, limit));
  for (ExecutionRecord& execution : silent) {
    execution.state = ExecutionState::kFailed;
    execution.end_time = std::max(end_time, execution.start_time);
    execution.failure_reason = std::string(failure_reason);
    PARPLAN_RETURN_IF_ERROR(UpdateState(*writer_, execution, true));
  }
  PARPLAN_RETURN_IF_ERROR(transaction.Commit());
  return silent;
}

absl::StatusOr<int64_t> SqliteStore::DeleteOldExecutions(absl::Time now, absl::Duration retention,
                                                         int64_t limit) {
  // A negative LIMIT means none to SQLite.
  if (limit <= 0) return 0;
  const std::lock_guard<std::mutex> lock(writer_mutex_);
  PARPLAN_ASSIGN_OR_RETURN(SqliteTransaction transaction,
                           SqliteTransaction::Begin(*writer_, Role::kWriter));
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<int64_t> old,
                           FindOld(*writer_, now - retention, limit));
  for (const int64_t sequence : old) {
    for (const char* const statement : {"DELETE FROM windows WHERE execution = ?1",
                                        "DELETE FROM executions WHERE sequence = ?1"}) {
      PARPLAN_ASSIGN_OR_RETURN(SqliteStatement remove, writer_->Prepare(statement));
      PARPLAN_RETURN_IF_ERROR(remove.Bind(1, sequence).Run());
    }
  }
  PARPLAN_RETURN_IF_ERROR(transaction.Commit());
  return static_cast<int64_t>(old.size());
}

}  // namespace parplan
