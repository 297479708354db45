#include "clients/kubernetes/window_journal.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/kubernetes/journal_records.h"
#include "proto/wire/resource_name.h"

namespace parplan::sidecar {
namespace {

// Executions that have ended and are still known by name.
constexpr size_t kMaxFinishedCount = 64;
// Pause after which a record that could not be read is tried again. Not measured: descriptors are
// free again soon, and a disk that is broken costs one attempt a second.
constexpr std::chrono::seconds kReadPause(1);

std::string NameOf(const v1::CreateExecutionRequest& request) {
  return absl::StrCat(request.parent(), "/executions/", request.request_id());
}

// Returns the size of a record on disk: header and content, rounded up to whole
// blocks.
int64_t SizeOnDisk(const std::string& text) {
  constexpr int64_t kHeader = 128;
  constexpr int64_t kBlock = 4096;
  return (static_cast<int64_t>(text.size()) + kHeader + kBlock - 1) / kBlock * kBlock;
}

absl::Status NoSuchExecution(absl::string_view name) {
  return MakeError(absl::StatusCode::kNotFound, Reason::kResourceNotFound,
                   absl::StrCat("no execution `", name, "` was opened here; open it again"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<WindowJournal>> WindowJournal::Open(const Options& options) {
  std::unique_ptr<WindowJournal> journal(new WindowJournal(options));
  PARPLAN_ASSIGN_OR_RETURN(journal->folder_, RecordFolder::Open(options.folder));
  PARPLAN_RETURN_IF_ERROR(journal->Load());
  return journal;
}

absl::Status WindowJournal::Load() {
  aside_.Load();
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<std::string> names, folder_->Names());
  for (const std::string& name : names) {
    const std::optional<JournalRecordName> parsed = ParseRecordName(name);
    if (!parsed.has_value()) continue;
    const int64_t number = parsed->execution_number;
    next_number_ = std::max({next_number_, number + 1, parsed->order + 1});
    absl::StatusOr<std::string> text = folder_->Read(name);
    if (!text.ok() && !absl::IsDataLoss(text.status())) return text.status();
    bool is_good = text.ok();
    // Executions come before their windows, in the order of names.
    if (is_good && !parsed->is_windows) {
      absl::StatusOr<ExecutionContent> content = ParseExecution(*text);
      is_good = content.ok();
      if (is_good) {
        Entry entry;
        entry.request = std::move(content->request);
        entry.execution = std::move(content->execution);
        entry.record = name;
        numbers_[NameOf(entry.request)] = number;
        entries_[number] = std::move(entry);
      }
    } else if (is_good) {
      const absl::StatusOr<std::vector<v1::MeasuredWindow>> windows = ParseWindows(*text);
      const auto entry = entries_.find(number);
      is_good = windows.ok() && entry != entries_.end();
      if (is_good) {
        const auto count = static_cast<int64_t>(windows->size());
        const int64_t bytes = SizeOnDisk(*text);
        entry->second.batches.push_back({name, count, bytes});
        entry->second.received_window_count += count;
        // Counts windows of an earlier process as received, since they will count as forwarded.
        counts_.received_window_count += count;
        counts_.waiting_window_count += count;
        counts_.waiting_byte_count += bytes;
      }
    }
    if (is_good) continue;
    ++counts_.damaged_record_count;
    PARPLAN_RETURN_IF_ERROR(SetAside(name, "damaged"));
  }
  return absl::OkStatus();
}

absl::Status WindowJournal::Store(const Entry& entry) {
  return folder_->Write(entry.record, WriteExecution({entry.request, entry.execution}));
}

absl::StatusOr<WindowJournal::Entry*> WindowJournal::Find(absl::string_view name) {
  const auto number = numbers_.find(name);
  if (number == numbers_.end()) return NoSuchExecution(name);
  return &entries_.at(number->second);
}

absl::StatusOr<std::string> WindowJournal::Begin(const v1::CreateExecutionRequest& request) {
  PARPLAN_RETURN_IF_ERROR(PlanName::Parse(request.parent(), "parent").status());
  if (!IsResourceId(request.request_id())) {
    return FieldError(Reason::kSpecInvalid, "request_id",
                      "must be a random UUID: lower-case letters, digits and `-`");
  }
  const std::string name = NameOf(request);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (numbers_.contains(name)) return name;
  Entry entry;
  entry.request = request;
  entry.execution.set_state(v1::Execution::RUNNING);
  entry.record = ExecutionRecordName(next_number_);
  PARPLAN_RETURN_IF_ERROR(Store(entry));
  numbers_[name] = next_number_;
  entries_[next_number_++] = std::move(entry);
  changed_.notify_all();
  return name;
}

absl::Status WindowJournal::Append(absl::string_view name,
                                   absl::Span<const v1::MeasuredWindow> windows) {
  if (windows.empty()) return absl::OkStatus();
  const std::string text = WriteWindows(windows);
  const int64_t bytes = SizeOnDisk(text);
  const std::lock_guard<std::mutex> lock(mutex_);
  PARPLAN_ASSIGN_OR_RETURN(Entry* const entry, Find(name));
  if (entry->execution.state() != v1::Execution::RUNNING) {
    return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kExecutionState,
                     absl::StrCat("execution `", name, "` is closed"));
  }
  if (counts_.waiting_byte_count + bytes > options_.max_byte_count) {
    return MakeError(absl::StatusCode::kUnavailable, Reason::kStoreUnavailable,
                     absl::StrCat("the queue of the sidecar is full (", options_.max_byte_count,
                                  " bytes wait for the server); send again later"));
  }
  const std::string record = WindowsRecordName(numbers_.find(name)->second, next_number_);
  PARPLAN_RETURN_IF_ERROR(folder_->Write(record, text));
  ++next_number_;
  const auto count = static_cast<int64_t>(windows.size());
  entry->batches.push_back({record, count, bytes});
  entry->received_window_count += count;
  counts_.received_window_count += count;
  counts_.waiting_window_count += count;
  counts_.waiting_byte_count += bytes;
  changed_.notify_all();
  return absl::OkStatus();
}

absl::Status WindowJournal::Close(absl::string_view name, v1::Execution::State outcome,
                                  const std::string& reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  PARPLAN_ASSIGN_OR_RETURN(Entry* const entry, Find(name));
  if (entry->execution.state() == outcome) return absl::OkStatus();
  if (entry->execution.state() != v1::Execution::RUNNING) {
    return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kExecutionState,
                     absl::StrCat("execution `", name, "` has ended another way"));
  }
  Entry closed = *entry;
  closed.execution.set_state(outcome);
  closed.execution.set_failure_reason(reason);
  PARPLAN_RETURN_IF_ERROR(Store(closed));
  *entry = std::move(closed);
  changed_.notify_all();
  return absl::OkStatus();
}

absl::StatusOr<v1::Execution> WindowJournal::Get(absl::string_view name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto number = numbers_.find(name);
  if (number == numbers_.end()) return NoSuchExecution(name);
  const Entry& entry = entries_.at(number->second);
  v1::Execution execution = entry.execution;
  execution.set_name(NameOf(entry.request));
  execution.set_window_count(entry.received_window_count);
  return execution;
}

WindowJournal::Step WindowJournal::StepOf(const Entry& entry) const {
  if (entry.is_finished) return Step::kNone;
  if (entry.execution.name().empty()) return Step::kOpen;
  if (!entry.batches.empty()) return Step::kSend;
  if (entry.execution.state() != v1::Execution::RUNNING) return Step::kClose;
  return abandon_reason_.has_value() && !entry.is_abandoned ? Step::kAbandon : Step::kNone;
}

WindowJournal::Entry* WindowJournal::Ready(Time now) {
  for (auto& [number, entry] : entries_) {
    current_step_ = StepOf(entry);
    if (current_step_ == Step::kNone || now < entry.next_read) continue;
    current_ = number;
    return &entry;
  }
  return nullptr;
}

WindowJournal::Time WindowJournal::NextRead(Time latest) const {
  for (const auto& [number, entry] : entries_) {
    if (StepOf(entry) != Step::kNone) latest = std::min(latest, entry.next_read);
  }
  return latest;
}

absl::StatusOr<JournalTask> WindowJournal::Read(Entry& entry) {
  JournalTask task;
  task.request = entry.request;
  task.execution = entry.execution.name();
  for (const Batch& batch : entry.batches) task.waiting_window_count += batch.window_count;
  if (current_step_ == Step::kOpen) return task;
  if (current_step_ == Step::kClose) {
    task.kind = JournalTask::Kind::kClose;
    task.outcome = entry.execution.state();
    task.reason = entry.execution.failure_reason();
    return task;
  }
  if (current_step_ == Step::kAbandon) {
    task.kind = JournalTask::Kind::kAbandon;
    task.reason = *abandon_reason_;
    return task;
  }
  task.kind = JournalTask::Kind::kSend;
  const absl::StatusOr<std::string> text = folder_->Read(entry.batches.front().record);
  // No descriptor is free, or the disk does not answer: the windows may well be whole.
  if (absl::IsUnavailable(text.status())) {
    entry.next_read = std::chrono::steady_clock::now() + kReadPause;
    return text.status();
  }
  absl::StatusOr<std::vector<v1::MeasuredWindow>> windows =
      text.ok() ? ParseWindows(*text) : text.status();
  if (!windows.ok()) {
    ++counts_.damaged_record_count;
    counts_.refused_window_count += entry.batches.front().window_count;
    DropBatch(entry, "damaged");
    return absl::DataLossError(windows.status().message());
  }
  task.windows = *std::move(windows);
  return task;
}

std::optional<JournalTask> WindowJournal::Next(absl::Duration timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
  while (!is_interrupted_) {
    const Time now = std::chrono::steady_clock::now();
    if (Entry* const entry = Ready(now)) {
      absl::StatusOr<JournalTask> task = Read(*entry);
      if (task.ok()) return *std::move(task);
      continue;
    }
    if (now >= deadline) break;
    changed_.wait_until(lock, NextRead(deadline));
  }
  return std::nullopt;
}

absl::Status WindowJournal::SetAside(const std::string& record, const char* why) {
  PARPLAN_RETURN_IF_ERROR(folder_->SetAside(record, why));
  aside_.Add(absl::StrCat(record, ".", why));
  return absl::OkStatus();
}

void WindowJournal::DropBatch(Entry& entry, const char* aside) {
  const Batch batch = entry.batches.front();
  // A record that stays is forwarded again, which changes nothing.
  (void)(aside == nullptr ? folder_->Remove(batch.record) : SetAside(batch.record, aside));
  entry.batches.pop_front();
  counts_.waiting_window_count -= batch.window_count;
  counts_.waiting_byte_count -= batch.byte_count;
}

void WindowJournal::Finish(Entry& entry) {
  entry.is_finished = true;
  (void)folder_->Remove(entry.record);
  ForgetOld();
}

void WindowJournal::ForgetOld() {
  size_t finished_count = 0;
  for (const auto& [number, entry] : entries_) finished_count += entry.is_finished ? 1 : 0;
  for (auto it = entries_.begin(); it != entries_.end() && finished_count > kMaxFinishedCount;) {
    if (!it->second.is_finished) {
      ++it;
      continue;
    }
    numbers_.erase(NameOf(it->second.request));
    it = entries_.erase(it);
    --finished_count;
  }
}

void WindowJournal::Done(const std::string& execution) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Entry& entry = entries_.at(current_);
  switch (current_step_) {
    case Step::kOpen:
      entry.execution.set_name(execution);
      // If this can't be stored, the server is asked again, and returns the same name.
      (void)Store(entry);
      break;
    case Step::kSend:
      counts_.forwarded_window_count += entry.batches.front().window_count;
      DropBatch(entry, nullptr);
      break;
    case Step::kClose:
      Finish(entry);
      break;
    case Step::kAbandon:
      entry.is_abandoned = true;
      break;
    case Step::kNone:
      break;
  }
  changed_.notify_all();
}

void WindowJournal::Refuse(bool is_closed) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Entry& entry = entries_.at(current_);
  const bool is_whole = current_step_ != Step::kSend;
  do {
    if (entry.batches.empty()) break;
    counts_.refused_window_count += entry.batches.front().window_count;
    DropBatch(entry, "refused");
  } while (is_whole);
  if (is_closed && entry.execution.state() == v1::Execution::RUNNING) {
    entry.execution.set_state(v1::Execution::FAILED);
    entry.execution.set_failure_reason("the server has closed it");
    // If this can't be stored, the server refuses it again.
    (void)Store(entry);
  }
  if (is_whole) {
    // No more windows are taken for it.
    if (entry.execution.state() == v1::Execution::RUNNING) {
      entry.execution.set_state(v1::Execution::FAILED);
    }
    Finish(entry);
  }
  changed_.notify_all();
}

void WindowJournal::RefuseSome(absl::Span<const v1::MeasuredWindow> refused) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Entry& entry = entries_.at(current_);
  const Batch& batch = entry.batches.front();
  const auto count = static_cast<int64_t>(refused.size());
  counts_.forwarded_window_count += batch.window_count - count;
  counts_.refused_window_count += count;
  // The record says what was refused; what the disk does not take is in the log.
  (void)folder_->Write(batch.record, WriteWindows(refused));
  DropBatch(entry, "refused");
  changed_.notify_all();
}

void WindowJournal::Abandon(const std::string& reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  abandon_reason_ = reason;
  changed_.notify_all();
}

void WindowJournal::Interrupt() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_interrupted_ = true;
  changed_.notify_all();
}

bool WindowJournal::is_empty() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [number, entry] : entries_) {
    if (StepOf(entry) != Step::kNone) return false;
  }
  return true;
}

JournalCounts WindowJournal::counts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counts_;
}

}  // namespace parplan::sidecar
