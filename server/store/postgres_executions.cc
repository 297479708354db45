// Executions in the PostgreSQL store; their windows are in postgres_windows.cc.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "server/store/page_token.h"
#include "server/store/postgres_locks.h"
#include "server/store/postgres_page.h"
#include "server/store/postgres_pool.h"
#include "server/store/postgres_store.h"
#include "server/store/postgres_values.h"
#include "server/store/store_errors.h"

namespace parplan {
namespace {

// Columns that `ReadExecution` reads.
constexpr char kColumns[] =
    "sequence, name, plan, execution_id, request_id, state, start_time, end_time, window_count, "
    "failure_reason, bytes, report_time, owner";

ExecutionRecord ReadExecution(const pqxx::row& row) {
  return {.name = TextOf(row[1]),
          .plan = TextOf(row[2]),
          .execution_id = TextOf(row[3]),
          .owner = TextOf(row[12]),
          .request_id = TextOf(row[4]),
          .state = static_cast<ExecutionState>(IntegerOf(row[5])),
          .start_time = TimeOf(row[6]),
          .end_time = TimeOf(row[7]),
          .failure_reason = TextOf(row[9]),
          .bytes = BytesOf(row[10]),
          .window_count = IntegerOf(row[8]),
          .report_time = TimeOf(row[11])};
}

std::optional<ExecutionRecord> ReadOne(const pqxx::result& rows) {
  if (rows.empty()) return std::nullopt;
  return ReadExecution(rows.front());
}

// Reads an execution by name. `lock` is empty or a locking clause.
std::optional<ExecutionRecord> FindByName(pqxx::transaction_base& transaction,
                                          const std::string& name, const char* lock) {
  return ReadOne(transaction.exec_params(
      absl::StrCat("SELECT ", kColumns, " FROM executions WHERE name = $1 ", lock), name));
}

std::optional<ExecutionRecord> FindByRequest(pqxx::transaction_base& transaction,
                                             const ExecutionRecord& execution) {
  if (execution.request_id.empty()) return std::nullopt;
  return ReadOne(transaction.exec_params(
      absl::StrCat("SELECT ", kColumns,
                   " FROM executions "
                   "WHERE plan = $1 AND request_id = $2 AND request_id <> ''"),
      execution.plan, execution.request_id));
}

void Insert(pqxx::transaction_base& transaction, const ExecutionRecord& execution) {
  transaction.exec_params(
      "INSERT INTO executions (name, plan, execution_id, request_id, state, start_time, end_time, "
      "window_count, failure_reason, bytes, report_time, owner, byte_count) "
      "VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8, $9, $6, $10, $11)",
      execution.name, execution.plan, execution.execution_id, execution.request_id,
      static_cast<int64_t>(execution.state), ToStoredTime(execution.start_time),
      ToStoredTime(execution.end_time), execution.failure_reason, ToBytea(execution.bytes),
      execution.owner, ExecutionByteCount(execution));
}

// Returns whether it was failed only for its silence.
bool IsAbandoned(pqxx::transaction_base& transaction, const std::string& name) {
  return !transaction
              .exec_params("SELECT 1 FROM executions WHERE name = $1 AND abandoned = 1", name)
              .empty();
}

void UpdateState(pqxx::transaction_base& transaction, const ExecutionRecord& execution,
                 bool is_abandoned) {
  transaction.exec_params(
      "UPDATE executions SET state = $2, end_time = $3, failure_reason = $4, abandoned = $5 "
      "WHERE name = $1",
      execution.name, static_cast<int64_t>(execution.state), ToStoredTime(execution.end_time),
      execution.failure_reason, int64_t{is_abandoned});
}

}  // namespace

absl::StatusOr<ExecutionRecord> PostgresStore::CreateExecution(ExecutionRecord execution) {
  PARPLAN_RETURN_IF_ERROR(CheckRecordSize(execution.bytes));
  std::optional<ExecutionRecord> stored;
  PARPLAN_RETURN_IF_ERROR(pool_->Write([&execution, &stored](
                                           pqxx::transaction_base& transaction) -> absl::Status {
    stored = FindByRequest(transaction, execution);
    if (stored.has_value()) return absl::OkStatus();
    if (transaction.exec_params("SELECT 1 FROM plans WHERE name = $1", execution.plan).empty()) {
      return NotStoredError("plan", execution.plan);
    }
    if (FindByName(transaction, execution.name, "").has_value()) {
      return NameTakenError(execution.name);
    }
    Insert(transaction, execution);
    return absl::OkStatus();
  }));
  if (stored.has_value()) return *std::move(stored);
  execution.window_count = 0;
  execution.report_time = execution.start_time;
  return execution;
}

absl::StatusOr<ExecutionRecord> PostgresStore::GetExecution(absl::string_view name) {
  std::optional<ExecutionRecord> execution;
  PARPLAN_RETURN_IF_ERROR(pool_->Read([&](pqxx::transaction_base& transaction) {
    execution = FindByName(transaction, std::string(name), "");
    return absl::OkStatus();
  }));
  if (!execution.has_value()) return NotStoredError("execution", name);
  return *std::move(execution);
}

absl::StatusOr<Page<ExecutionRecord>> PostgresStore::ListExecutions(absl::string_view plan,
                                                                    const PageRequest& page) {
  const std::string list = absl::StrCat("executions/", plan);
  PARPLAN_ASSIGN_OR_RETURN(const PagePosition position, ReadPageRequest(list, page));
  return ReadPostgresPage<ExecutionRecord>(
      *pool_, {"executions", kColumns, "plan = $1 AND $2 = ''", std::string(plan), "", list},
      position, ReadExecution);
}

absl::StatusOr<ExecutionRecord> PostgresStore::SetExecutionState(absl::string_view name,
                                                                 ExecutionState expected,
                                                                 ExecutionState state,
                                                                 absl::Time end_time,
                                                                 absl::string_view failure_reason) {
  std::optional<ExecutionRecord> execution;
  PARPLAN_RETURN_IF_ERROR(pool_->Write([&](pqxx::transaction_base& transaction) -> absl::Status {
    execution = FindByName(transaction, std::string(name), "FOR UPDATE");
    if (!execution.has_value()) return NotStoredError("execution", name);
    // The row is locked, so this reads the same state.
    const bool runs =
        execution->state == ExecutionState::kRunning || IsAbandoned(transaction, execution->name);
    if ((runs ? ExecutionState::kRunning : execution->state) != expected) {
      return ExecutionStateError(name, execution->state);
    }
    const bool abandons = state == ExecutionState::kAbandoned;
    execution->state = abandons ? ExecutionState::kFailed : state;
    execution->end_time = end_time;
    execution->failure_reason = std::string(failure_reason);
    UpdateState(transaction, *execution, abandons);
    return absl::OkStatus();
  }));
  return *std::move(execution);
}

absl::StatusOr<std::vector<ExecutionRecord>> PostgresStore::FailSilentExecutions(
    absl::Time before, absl::Time end_time, absl::string_view failure_reason, int64_t limit) {
  std::vector<ExecutionRecord> silent;
  PARPLAN_RETURN_IF_ERROR(pool_->Write([&](pqxx::transaction_base& transaction) -> absl::Status {
    silent.clear();
    // Servers that do this at the same time take different rows.
    const pqxx::result rows = transaction.exec_params(
        absl::StrCat("SELECT ", kColumns,
                     " FROM executions WHERE state = 1 AND report_time <= $1 "
                     "ORDER BY report_time, sequence LIMIT $2 FOR UPDATE SKIP LOCKED"),
        ToStoredTime(before), limit);
    for (const pqxx::row& row : rows) {
      ExecutionRecord& execution = silent.emplace_back(ReadExecution(row));
      execution.state = ExecutionState::kFailed;
      execution.end_time = std::max(end_time, execution.start_time);
      execution.failure_reason = std::string(failure_reason);
      UpdateState(transaction, execution, true);
    }
    return absl::OkStatus();
  }));
  return silent;
}

absl::StatusOr<int64_t> PostgresStore::DeleteOldExecutions(absl::Time now, absl::Duration retention,
                                                           int64_t limit) {
  if (limit <= 0) return 0;
  int64_t deleted = 0;
  PARPLAN_RETURN_IF_ERROR(pool_->Write([&](pqxx::transaction_base& transaction) {
    deleted = 0;
    const std::optional<absl::Time> database_now = TakeDeletionTurn(transaction, /*waits=*/false);
    if (!database_now.has_value()) return absl::OkStatus();
    const absl::Time before = std::min(now, *database_now) - retention;
    // An execution that reports again meanwhile holds its row, or finds it gone.
    const pqxx::result rows = transaction.exec_params(
        "SELECT sequence, window_count FROM executions "
        "WHERE state <> 1 AND end_time <= $1 AND report_time <= $1 "
        "ORDER BY end_time, sequence LIMIT $2 FOR UPDATE SKIP LOCKED",
        ToStoredTime(before), limit);
    std::vector<int64_t> old;
    int64_t window_count = 0;
    for (const pqxx::row& row : rows) {
      if (window_count >= kMaxDeletedWindowCount) break;
      old.push_back(IntegerOf(row[0]));
      window_count += IntegerOf(row[1]);
    }
    if (old.empty()) return absl::OkStatus();
    // The executions last: from there to the commit, others of their owners wait who open an
    // execution or report to one.
    const std::string sequences = absl::StrCat("{", absl::StrJoin(old, ","), "}");
    transaction.exec_params("DELETE FROM windows WHERE execution = ANY($1::bigint[])", sequences);
    transaction.exec_params("DELETE FROM executions WHERE sequence = ANY($1::bigint[])", sequences);
    deleted = static_cast<int64_t>(old.size());
    return absl::OkStatus();
  }));
  return deleted;
}

}  // namespace parplan
