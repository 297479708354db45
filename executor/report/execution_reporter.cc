#include "executor/report/execution_reporter.h"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/steady_clock.h"
#include "executor/windows/step_aside.h"

namespace parplan {
namespace {

// Largest number of windows in one call.
constexpr size_t kBatchSize = 256;

}  // namespace

ExecutionReporter::ExecutionReporter(ReporterOptions options, Connect connect)
    : options_(std::move(options)),
      connect_(std::move(connect)),
      request_id_(MakeUuid()),
      pause_(options_.first_pause),
      thread_([this] { Work(); }) {}

ExecutionReporter::~ExecutionReporter() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_leaving_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ExecutionReporter::Add(std::vector<v1::MeasuredWindow> windows) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (v1::MeasuredWindow& window : windows) queue_.push_back(std::move(window));
    for (; queue_.size() > options_.max_window_count; queue_.pop_front()) ++summary_.lost_count;
  }
  changed_.notify_all();
}

ReportSummary ExecutionReporter::Finish(const absl::Status& outcome) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_finishing_ = true;
    outcome_ = outcome;
    deadline_ = SteadyNow() + options_.close_timeout;
  }
  changed_.notify_all();
  thread_.join();
  const std::lock_guard<std::mutex> lock(mutex_);
  summary_.lost_count += static_cast<int64_t>(queue_.size());
  queue_.clear();
  summary_.execution = execution_;
  return summary_;
}

void ExecutionReporter::Work() {
  StepAside();
  while (WorkOnce()) {
  }
}

absl::Duration ExecutionReporter::Timeout() const {
  return std::clamp(deadline_ - SteadyNow(), absl::Milliseconds(1), options_.call_timeout);
}

bool ExecutionReporter::IsPassing(const absl::Status& status) {
  if (absl::IsResourceExhausted(status)) {
    // A quota refills and a full queue empties; an execution that is full stays so.
    const std::optional<ErrorDetail> detail = GetErrorDetail(status);
    return !detail.has_value() || detail->reason != Reason::kUploadTooLarge;
  }
  // A token may be replaced late, and a server may read keys late that sign tokens already.
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status) || absl::IsInternal(status) || absl::IsUnknown(status) ||
         absl::IsUnauthenticated(status);
}

bool ExecutionReporter::WorkOnce() {
  bool is_closing = false;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    // The execution is opened before there are windows, so that the server knows of the job.
    const bool is_open = !execution_.empty() || has_given_up_;
    if (is_open) {
      changed_.wait(lock, [this] { return is_leaving_ || is_finishing_ || !queue_.empty(); });
    }
    if (is_leaving_) return false;
    if (has_given_up_) {
      summary_.lost_count += static_cast<int64_t>(queue_.size());
      queue_.clear();
      return !is_finishing_;
    }
    is_closing = is_finishing_ && queue_.empty() && is_open;
  }
  const absl::Status status = execution_.empty() ? Open() : is_closing ? Close() : Send();
  if (status.ok()) {
    pause_ = options_.first_pause;
    return !is_closing;
  }
  std::unique_lock<std::mutex> lock(mutex_);
  summary_.trouble = status;
  if (!IsPassing(status)) {
    has_given_up_ = true;
    return true;
  }
  const absl::Duration pause = NextPause();
  if (SteadyNow() + pause >= deadline_) return false;
  // The end of the job ends the pause.
  const bool was_finishing = is_finishing_;
  changed_.wait_for(lock, absl::ToChronoNanoseconds(pause),
                    [&] { return is_leaving_ || is_finishing_ != was_finishing; });
  return !is_leaving_;
}

absl::Duration ExecutionReporter::NextPause() {
  thread_local std::mt19937 random{std::random_device{}()};
  const double factor = std::uniform_real_distribution<double>(0.5, 1.5)(random);
  const absl::Duration pause = pause_ * factor;
  pause_ = std::min(pause_ * 2, options_.last_pause);
  return pause;
}

absl::Status ExecutionReporter::Open() {
  if (sink_ == nullptr) {
    absl::StatusOr<std::unique_ptr<ExecutionSink>> sink = connect_();
    // A file that is just being renewed is no reason to give up.
    if (!sink.ok()) return absl::UnavailableError(sink.status().message());
    sink_ = *std::move(sink);
  }
  absl::Duration timeout;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    timeout = Timeout();
  }
  v1::CreateExecutionRequest request;
  request.set_parent(options_.plan);
  request.set_request_id(request_id_);
  request.mutable_start_time()->set_seconds(absl::ToUnixSeconds(options_.start_time));
  PARPLAN_ASSIGN_OR_RETURN(execution_, sink_->Create(request, timeout));
  if (options_.on_opened) options_.on_opened(execution_);
  return absl::OkStatus();
}

absl::Status ExecutionReporter::Send() {
  std::vector<v1::MeasuredWindow> batch;
  absl::Duration timeout;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const size_t count = std::min(queue_.size(), kBatchSize);
    batch.assign(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(count));
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(count));
    timeout = Timeout();
  }
  const absl::Status status = sink_->Report(execution_, batch, timeout);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto count = static_cast<int64_t>(batch.size());
  if (status.ok()) {
    summary_.delivered_count += count;
    return status;
  }
  if (absl::IsInvalidArgument(status)) {
    // The server will never take these windows; it may take others.
    summary_.lost_count += count;
    summary_.trouble = status;
    return absl::OkStatus();
  }
  queue_.insert(queue_.begin(), std::make_move_iterator(batch.begin()),
                std::make_move_iterator(batch.end()));
  for (; queue_.size() > options_.max_window_count; queue_.pop_front()) ++summary_.lost_count;
  return status;
}

absl::Status ExecutionReporter::Close() {
  absl::Duration timeout;
  absl::Status outcome;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    timeout = Timeout();
    outcome = outcome_;
  }
  PARPLAN_RETURN_IF_ERROR(outcome.ok()
                              ? sink_->Complete(execution_, timeout)
                              : sink_->Fail(execution_, std::string(outcome.message()), timeout));
  const std::lock_guard<std::mutex> lock(mutex_);
  summary_.is_closed = true;
  return absl::OkStatus();
}

}  // namespace parplan
