#include "clients/kubernetes/forwarder.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/error.h"
#include "clients/delivery/backoff.h"

namespace parplan::sidecar {
namespace {

// Interval at which the thread checks whether it shall end.
constexpr absl::Duration kLook = absl::Minutes(1);
constexpr absl::Duration kFlushLook = absl::Milliseconds(20);

}  // namespace

bool MayRetry(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
      return false;
    case absl::StatusCode::kResourceExhausted: {
      // The server keeps no more windows of this execution; a full queue empties.
      const std::optional<ErrorDetail> detail = GetErrorDetail(status);
      return !detail.has_value() || detail->reason != Reason::kUploadTooLarge;
    }
    default:
      // A wrong certificate may be put right, too.
      return true;
  }
}

Forwarder::Forwarder(WindowJournal& journal, Deliver deliver, ForwarderOptions options,
                     Observer observer)
    : journal_(journal),
      deliver_(std::move(deliver)),
      options_(options),
      observer_(std::move(observer)),
      thread_([this] { Run(); }) {}

Forwarder::~Forwarder() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  journal_.Interrupt();
  thread_.join();
}

bool Forwarder::Flush(absl::Duration timeout) {
  const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
  std::unique_lock<std::mutex> lock(mutex_);
  is_hurried_ = true;
  changed_.notify_all();
  while (true) {
    lock.unlock();
    const bool is_empty = journal_.is_empty();
    lock.lock();
    if (is_empty || std::chrono::steady_clock::now() >= deadline) {
      is_hurried_ = false;
      return is_empty;
    }
    changed_.wait_for(lock, absl::ToChronoNanoseconds(kFlushLook));
  }
}

int64_t Forwarder::failure_count() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failure_count_;
}

void Forwarder::Run() {
  while (true) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (is_ending_) return;
    }
    const std::optional<JournalTask> task = journal_.Next(kLook);
    if (task.has_value()) Send(*task);
  }
}

void Forwarder::Send(const JournalTask& task) {
  const absl::StatusOr<std::string> sent = deliver_(task);
  const bool may_retry = !sent.ok() && MayRetry(sent.status());
  if (observer_ != nullptr) observer_(task, sent.status(), may_retry);
  if (sent.ok()) {
    journal_.Done(*sent);
  } else if (may_retry) {
    Pause();
    return;
  } else if (absl::IsInvalidArgument(sent.status()) && task.windows.size() > 1) {
    SendOneByOne(task);
    return;
  } else {
    const std::optional<ErrorDetail> detail = GetErrorDetail(sent.status());
    journal_.Refuse(/*is_closed=*/detail.has_value() && detail->reason == Reason::kExecutionState);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  failures_in_a_row_ = 0;
}

void Forwarder::SendOneByOne(JournalTask task) {
  const std::vector<v1::MeasuredWindow> all = std::exchange(task.windows, {});
  std::vector<v1::MeasuredWindow> refused;
  for (const v1::MeasuredWindow& window : all) {
    {
      // The next process sends all of them again; those the server has change nothing.
      const std::lock_guard<std::mutex> lock(mutex_);
      if (is_ending_) return;
    }
    task.windows = {window};
    const absl::Status status = deliver_(task).status();
    if (status.ok()) continue;
    if (MayRetry(status)) {
      // All of them again; those the server has change nothing.
      Pause();
      return;
    }
    refused.push_back(window);
  }
  if (refused.empty()) {
    journal_.Done();
  } else {
    journal_.RefuseSome(refused);
  }
}

void Forwarder::Pause() {
  thread_local std::mt19937 random{std::random_device{}()};
  std::unique_lock<std::mutex> lock(mutex_);
  ++failure_count_;
  ++failures_in_a_row_;
  const double factor = std::uniform_real_distribution<double>(0.0, 1.0)(random);
  absl::Duration pause =
      BackoffPause({options_.first_pause, options_.longest_pause}, failures_in_a_row_, factor);
  if (is_hurried_) pause = std::min(pause, options_.first_pause);
  const bool was_hurried = is_hurried_;
  changed_.wait_for(lock, absl::ToChronoNanoseconds(pause),
                    [&] { return is_ending_ || is_hurried_ != was_hurried; });
}

}  // namespace parplan::sidecar
