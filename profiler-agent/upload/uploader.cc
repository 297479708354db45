#include "profiler-agent/upload/uploader.h"

#include <optional>
#include <random>
#include <utility>

#include "absl/status/statusor.h"
#include "base/error.h"

namespace parplan {

bool MayRetryUpload(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
      return false;
    case absl::StatusCode::kResourceExhausted: {
      // A profile that exceeds the server's size limit will always do so; a quota may be free
      // again.
      const std::optional<ErrorDetail> detail = GetErrorDetail(status);
      return detail.has_value() && detail->reason == Reason::kQuotaExceeded;
    }
    default:
      return true;
  }
}

Uploader::Uploader(UploadQueue& queue, UploadFunction upload, BackoffOptions backoff,
                   Observer observer)
    : queue_(queue),
      upload_(std::move(upload)),
      backoff_(backoff),
      observer_(std::move(observer)),
      thread_([this] { Run(); }) {}

Uploader::~Uploader() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Uploader::Wake() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_woken_ = true;
  }
  changed_.notify_all();
}

UploadCounts Uploader::counts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counts_;
}

bool Uploader::Sleep(absl::Duration pause) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto is_over = [this] { return is_woken_ || is_ending_; };
  if (pause == absl::InfiniteDuration()) {
    changed_.wait(lock, is_over);
  } else {
    changed_.wait_for(lock, absl::ToChronoNanoseconds(pause), is_over);
  }
  is_woken_ = false;
  return !is_ending_;
}

void Uploader::Count(const absl::Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  counts_.last_status = status;
  int64_t& count = status.ok()              ? counts_.done
                   : MayRetryUpload(status) ? counts_.failed
                                            : counts_.refused;
  ++count;
}

void Uploader::Run() {
  std::mt19937_64 engine(std::random_device{}());
  std::uniform_real_distribution<double> random(0.0, 1.0);
  int failure_count = 0;
  absl::Duration pause;
  do {
    const absl::StatusOr<std::optional<PendingUpload>> next = queue_.Front();
    if (next.ok() && !next->has_value()) {
      pause = absl::InfiniteDuration();
      continue;
    }
    absl::Status status = next.status();
    if (status.ok()) {
      status = upload_(**next);
      // If the record of a stored upload cannot be removed, it is sent again under the same id.
      absl::Status kept;
      if (status.ok()) {
        kept = queue_.PopFront();
      } else if (!MayRetryUpload(status)) {
        kept = queue_.RefuseFront();
      }
      Count(status);
      if (observer_ != nullptr) observer_(**next, status);
      if (!kept.ok()) status = kept;
    } else {
      Count(status);
    }
    if (status.ok() || !MayRetryUpload(status)) {
      failure_count = 0;
      pause = absl::ZeroDuration();
    } else {
      pause = BackoffPause(backoff_, ++failure_count, random(engine));
    }
  } while (Sleep(pause));
}

}  // namespace parplan
