#include "server/core/upload_memory.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error.h"

namespace parplan {
namespace {

// An upload takes seconds; one that is held open ends after `RpcServerOptions::max_stream_silence`.
constexpr absl::Duration kRetry = absl::Seconds(10);

}  // namespace

UploadMemory::Share::Share(UploadMemory& memory, std::string holder)
    : memory_(memory), holder_(std::move(holder)) {}

UploadMemory::Share::~Share() {
  if (byte_count_ == 0) return;
  const std::lock_guard<std::mutex> lock(memory_.mutex_);
  memory_.taken_ -= byte_count_;
  const auto found = memory_.by_holder_.find(holder_);
  if ((found->second -= byte_count_) == 0) memory_.by_holder_.erase(found);
}

absl::Status UploadMemory::Share::Grow(int64_t byte_count) {
  const std::lock_guard<std::mutex> lock(memory_.mutex_);
  const auto found = memory_.by_holder_.find(holder_);
  const int64_t of_holder = found == memory_.by_holder_.end() ? 0 : found->second;
  const bool holder_has_room = of_holder + byte_count <= memory_.limit_ / 2;
  if (!holder_has_room || memory_.taken_ + byte_count > memory_.limit_) {
    const int64_t limit = holder_has_room ? memory_.limit_ : memory_.limit_ / 2;
    return WithRetryDelay(
        MakeError(absl::StatusCode::kResourceExhausted, Reason::kQueueFull,
                  absl::StrCat("uploads in progress", holder_has_room ? "" : " of this caller",
                               " would hold more than ", limit,
                               " bytes; begin this one again when others have ended"),
                  {{"limit", absl::StrCat(limit)}}),
        kRetry);
  }
  memory_.taken_ += byte_count;
  memory_.by_holder_[holder_] += byte_count;
  byte_count_ += byte_count;
  return absl::OkStatus();
}

}  // namespace parplan
