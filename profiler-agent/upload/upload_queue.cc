#include "profiler-agent/upload/upload_queue.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

constexpr char kHeader[] = "parplan upload 1";
constexpr char kDamaged[] = "damaged";
constexpr char kRefused[] = "refused";

// Returns the record: a line each for the header, the request id and the parent, then the profile.
std::string ToText(const PendingUpload& upload) {
  return absl::StrCat(kHeader, "\n", upload.request_id, "\n", upload.parent, "\n", upload.profile);
}

std::optional<PendingUpload> FromText(const std::string& text) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, absl::MaxSplits('\n', 3));
  if (lines.size() != 4 || lines[0] != kHeader) return std::nullopt;
  return PendingUpload{std::string(lines[1]), std::string(lines[2]), std::string(lines[3])};
}

// Returns the name of a record, padded so that names sort as their numbers do.
std::string NameOf(uint64_t number) {
  constexpr size_t kDigits = 20;
  const std::string digits = absl::StrCat(number);
  return std::string(kDigits - digits.size(), '0') + digits;
}

}  // namespace

absl::StatusOr<std::unique_ptr<UploadQueue>> UploadQueue::Open(const std::string& folder) {
  PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<RecordFolder> records, RecordFolder::Open(folder));
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<std::string> names, records->Names());
  return std::unique_ptr<UploadQueue>(new UploadQueue(std::move(records), names));
}

UploadQueue::UploadQueue(std::unique_ptr<RecordFolder> folder,
                         const std::vector<std::string>& records)
    : folder_(std::move(folder)) {
  for (const std::string& name : records) {
    uint64_t number = 0;
    if (!absl::SimpleAtoi(name, &number) || NameOf(number) != name) continue;
    names_.insert(name);
    next_number_ = number + 1;
  }
}

absl::Status UploadQueue::Push(const PendingUpload& upload) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (names_.size() >= kMaxLength) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, Reason::kQueueFull,
        absl::StrCat(names_.size(), " profiles are waiting in ", folder_->path(),
                     " for the server; make the server reachable, or delete old records"),
        {{"queueLength", absl::StrCat(names_.size())}});
  }
  const std::string name = NameOf(next_number_);
  PARPLAN_RETURN_IF_ERROR(folder_->Write(name, ToText(upload)));
  names_.insert(name);
  ++next_number_;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<PendingUpload>> UploadQueue::Front() {
  const std::lock_guard<std::mutex> lock(mutex_);
  while (!names_.empty()) {
    const std::string name = *names_.begin();
    absl::StatusOr<std::string> text = folder_->Read(name);
    if (text.ok()) {
      std::optional<PendingUpload> upload = FromText(*text);
      if (upload.has_value()) return upload;
      text = absl::DataLossError("no upload");
    }
    if (text.status().code() == absl::StatusCode::kDataLoss) {
      PARPLAN_RETURN_IF_ERROR(folder_->SetAside(name, kDamaged));
      ++damaged_count_;
    } else if (text.status().code() != absl::StatusCode::kNotFound) {
      return text.status();
    }
    names_.erase(name);
  }
  return std::nullopt;
}

absl::Status UploadQueue::PopFront() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (names_.empty()) return absl::OkStatus();
  PARPLAN_RETURN_IF_ERROR(folder_->Remove(*names_.begin()));
  names_.erase(names_.begin());
  return absl::OkStatus();
}

absl::Status UploadQueue::RefuseFront() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (names_.empty()) return absl::OkStatus();
  PARPLAN_RETURN_IF_ERROR(folder_->SetAside(*names_.begin(), kRefused));
  names_.erase(names_.begin());
  return absl::OkStatus();
}

int UploadQueue::length() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int>(names_.size());
}

int64_t UploadQueue::damaged_count() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return damaged_count_;
}

}  // namespace parplan
