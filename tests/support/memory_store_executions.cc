// The executions of `MemoryStore` and their windows.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/status_macros.h"
#include "server/store/store_errors.h"
#include "tests/support/memory_store.h"
#include "tests/support/memory_store_tables.h"

namespace parplan {
namespace {

using Lock = std::lock_guard<std::mutex>;

}  // namespace

absl::StatusOr<ExecutionRecord> MemoryStore::CreateExecution(ExecutionRecord execution) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(BeginChange());
  if (Find(state_->plans, execution.plan) == nullptr) {
    return NotStoredError("plan", execution.plan);
  }
  for (const auto& [position, stored] : state_->executions) {
    if (!execution.request_id.empty() && stored.request_id == execution.request_id &&
        stored.plan == execution.plan) {
      return stored;
    }
  }
  if (Find(state_->executions, execution.name) != nullptr) return NameTakenError(execution.name);
  execution.window_count = 0;
  execution.report_time = execution.start_time;
  state_->executions[state_->next_position++] = execution;
  return execution;
}

absl::StatusOr<ExecutionRecord> MemoryStore::GetExecution(absl::string_view name) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  const ExecutionRecord* execution = Find(state_->executions, name);
  if (execution == nullptr) return NotStoredError("execution", name);
  return *execution;
}

absl::StatusOr<Page<ExecutionRecord>> MemoryStore::ListExecutions(absl::string_view plan,
                                                                  const PageRequest& page) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  return ListNewestFirst(state_->executions, absl::StrCat("executions/", plan), page,
                         [&](const ExecutionRecord& execution) { return execution.plan == plan; });
}

absl::StatusOr<ExecutionRecord> MemoryStore::SetExecutionState(absl::string_view name,
                                                               ExecutionState expected,
                                                               ExecutionState state,
                                                               absl::Time end_time,
                                                               absl::string_view failure_reason) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(BeginChange());
  ExecutionRecord* execution = Find(state_->executions, name);
  if (execution == nullptr) return NotStoredError("execution", name);
  const bool is_abandoned = state_->abandoned.count(execution->name) > 0;
  if ((is_abandoned ? ExecutionState::kRunning : execution->state) != expected) {
    return ExecutionStateError(execution->name, execution->state);
  }
  const bool abandons = state == ExecutionState::kAbandoned;
  if (abandons) {
    state_->abandoned.insert(execution->name);
  } else {
    state_->abandoned.erase(execution->name);
  }
  execution->state = abandons ? ExecutionState::kFailed : state;
  execution->end_time = end_time;
  execution->failure_reason = std::string(failure_reason);
  return *execution;
}

absl::StatusOr<std::vector<ExecutionRecord>> MemoryStore::FailSilentExecutions(
    absl::Time before, absl::Time end_time, absl::string_view failure_reason, int64_t limit) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(BeginChange());
  std::vector<std::pair<absl::Time, ExecutionRecord*>> silent;
  for (auto& [position, execution] : state_->executions) {
    if (execution.state == ExecutionState::kRunning && execution.report_time <= before) {
      silent.emplace_back(execution.report_time, &execution);
    }
  }
  std::stable_sort(silent.begin(), silent.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  if (static_cast<int64_t>(silent.size()) > limit) silent.resize(limit);
  std::vector<ExecutionRecord> failed;
  for (const auto& [report_time, execution] : silent) {
    execution->state = ExecutionState::kFailed;
    execution->end_time = std::max(end_time, execution->start_time);
    execution->failure_reason = std::string(failure_reason);
    state_->abandoned.insert(execution->name);
    failed.push_back(*execution);
  }
  return failed;
}

absl::StatusOr<int64_t> MemoryStore::DeleteOldExecutions(absl::Time now, absl::Duration retention,
                                                         int64_t limit) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(BeginChange());
  const absl::Time before = now - retention;
  // Those that ended first first.
  std::vector<std::pair<absl::Time, int64_t>> old;
  for (const auto& [position, execution] : state_->executions) {
    if (execution.state != ExecutionState::kRunning && execution.end_time <= before &&
        execution.report_time <= before) {
      old.emplace_back(execution.end_time, position);
    }
  }
  std::sort(old.begin(), old.end());
  int64_t deleted = 0;
  int64_t window_count = 0;
  for (const auto& [end_time, position] : old) {
    if (deleted >= limit || window_count >= kMaxDeletedWindowCount) break;
    const std::string name = state_->executions.at(position).name;
    window_count += state_->executions.at(position).window_count;
    state_->abandoned.erase(name);
    state_->windows.erase(name);
    state_->executions.erase(position);
    ++deleted;
  }
  return deleted;
}

absl::StatusOr<AppendResult> MemoryStore::AppendWindows(absl::string_view name,
                                                        absl::Span<const WindowRecord> windows,
                                                        const ExecutionLimits& limits,
                                                        absl::Time report_time) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(BeginChange());
  ExecutionRecord* execution = Find(state_->executions, name);
  if (execution == nullptr) return NotStoredError("execution", name);
  const bool is_abandoned = state_->abandoned.count(execution->name) > 0;
  if (execution->state != ExecutionState::kRunning && !is_abandoned)
    return ExecutionStateError(execution->name, execution->state);
  Windows all = state_->windows[execution->name];
  AppendResult result;
  for (const WindowRecord& window : windows) {
    const bool is_new = all.try_emplace({window.rank, window.first_step}, window).second;
    ++(is_new ? result.stored_count : result.duplicate_count);
  }
  ExecutionLimits total = {.window_count = static_cast<int64_t>(all.size()),
                           .byte_count = ExecutionByteCount(*execution)};
  for (const auto& [key, window] : all) total.byte_count += WindowByteCount(window);
  if (result.stored_count > 0) {
    PARPLAN_RETURN_IF_ERROR(CheckExecutionLimits(name, total, limits));
  }
  execution->window_count = static_cast<int64_t>(all.size());
  if (result.stored_count > 0) {
    execution->report_time = std::max(execution->report_time, report_time);
  }
  if (result.stored_count > 0 && is_abandoned) {
    state_->abandoned.erase(execution->name);
    execution->state = ExecutionState::kRunning;
    execution->end_time = absl::InfiniteFuture();
    execution->failure_reason.clear();
  }
  state_->windows[execution->name] = std::move(all);
  return result;
}

absl::StatusOr<int64_t> MemoryStore::WindowCount(absl::string_view name) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  const ExecutionRecord* execution = Find(state_->executions, name);
  if (execution == nullptr) return NotStoredError("execution", name);
  return execution->window_count;
}

absl::StatusOr<std::vector<WindowRecord>> MemoryStore::ListWindows(absl::string_view name,
                                                                   WindowParts parts) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  if (Find(state_->executions, name) == nullptr) return NotStoredError("execution", name);
  std::vector<WindowRecord> windows;
  for (const auto& [key, window] : state_->windows[std::string(name)]) {
    windows.push_back(window);
    if (parts == WindowParts::kFigures) windows.back().bytes.clear();
  }
  return windows;
}

}  // namespace parplan
