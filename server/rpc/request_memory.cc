#include "server/rpc/request_memory.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error.h"

namespace parplan {
namespace {

// Calls without a search end within milliseconds, those with one within seconds.
constexpr absl::Duration kRetry = absl::Seconds(2);

absl::Status TooManyError(bool of_caller, int64_t limit) {
  return WithRetryDelay(
      MakeError(
          absl::StatusCode::kResourceExhausted, Reason::kQueueFull,
          absl::StrCat("requests in progress", of_caller ? " of this caller" : "",
                       " would take more than ", limit, " bytes; ask again when others have ended"),
          {{"limit", absl::StrCat(limit)}}),
      kRetry);
}

}  // namespace

RequestMemory::Share::Share(RequestMemory& memory, std::string holder, int64_t byte_count,
                            absl::Status status)
    : memory_(memory),
      holder_(std::move(holder)),
      byte_count_(byte_count),
      status_(std::move(status)) {}

RequestMemory::Share::~Share() {
  if (byte_count_ == 0) return;
  const std::lock_guard<std::mutex> lock(memory_.mutex_);
  memory_.taken_ -= byte_count_;
  const auto found = memory_.by_holder_.find(holder_);
  if ((found->second -= byte_count_) == 0) memory_.by_holder_.erase(found);
}

bool RequestMemory::Reserve(const void* call, int64_t byte_count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [entry, is_new] = waiting_.try_emplace(call, kRefused);
  // A call that ended before it took its share, for want of memory, left it here.
  if (!is_new && entry->second != kRefused) taken_ -= entry->second;
  entry->second = kRefused;
  if (taken_ + byte_count > limit_) return false;
  taken_ += byte_count;
  entry->second = byte_count;
  return true;
}

void RequestMemory::Release(const void* call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = waiting_.find(call);
  if (found == waiting_.end()) return;
  if (found->second != kRefused) taken_ -= found->second;
  waiting_.erase(found);
}

std::unique_ptr<const RequestMemory::Share> RequestMemory::Take(const void* call,
                                                                std::string holder) {
  const std::lock_guard<std::mutex> lock(mutex_);
  int64_t byte_count = 0;
  absl::Status status;
  if (const auto found = waiting_.find(call); found != waiting_.end()) {
    if (found->second == kRefused) {
      status = TooManyError(false, limit_);
    } else {
      byte_count = found->second;
      int64_t& of_holder = by_holder_[holder];
      of_holder += byte_count;
      // A refused request is there until its call has ended, so its bytes count until then.
      if (of_holder > limit_ / 2) status = TooManyError(true, limit_ / 2);
    }
    waiting_.erase(found);
  }
  return std::unique_ptr<const Share>(
      new Share(*this, std::move(holder), byte_count, std::move(status)));
}

int64_t RequestMemory::taken() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return taken_;
}

}  // namespace parplan
