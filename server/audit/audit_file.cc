#include "server/audit/audit_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"
#include "base/system/start_thread.h"
#include "proto/wire/digest.h"
#include "server/audit/audit_verifier.h"

namespace parplan {
namespace {

using Json = nlohmann::ordered_json;

// The end of a file in which its last line is looked for. No line is longer (audit_verifier.cc).
constexpr int64_t kTailBytes = int64_t{2} << 20;

constexpr char kLineBegin[] = "{\"sequence\":";

absl::Status AuditError(absl::StatusCode code, absl::string_view message) {
  return MakeError(code, Reason::kAuditUnavailable, message);
}

const char* EventName(AuditRecord::Event event) {
  switch (event) {
    case AuditRecord::Event::kCall:
      return "call";
    case AuditRecord::Event::kSignature:
      return "signature";
    case AuditRecord::Event::kRefusal:
      return "refusal";
  }
  return "";
}

// Longest text of a field. Names of the contract are shorter; the verifier reads lines of up to
// 1 MiB, and a byte takes up to 12 in JSON.
constexpr size_t kMaxTextBytes = 4096;

std::string Cut(absl::string_view text) {
  if (text.size() <= kMaxTextBytes) return std::string(text);
  return absl::StrCat(text.substr(0, kMaxTextBytes), "... (", text.size(), " bytes)");
}

// Returns the record with texts that a line can hold, so that it takes little memory while it
// waits.
AuditRecord Shortened(const AuditRecord& record) {
  AuditRecord shortened = record;
  for (std::string* const text :
       {&shortened.identity, &shortened.role, &shortened.method, &shortened.resource,
        &shortened.job_id, &shortened.plan, &shortened.request_id}) {
    *text = Cut(*text);
  }
  return shortened;
}

// The event of the first line of a file that goes on after one that was renamed.
constexpr char kContinuation[] = "continuation";

std::string LineOf(const AuditRecord& record, absl::string_view event, const AuditHead& before,
                   absl::Time now, int64_t omitted_count) {
  const bool is_refusal = record.event == AuditRecord::Event::kRefusal;
  Json line = {
      {"sequence", before.sequence + 1},
      {"time", absl::FormatTime(absl::RFC3339_full, now, absl::UTCTimeZone())},
      {"event", std::string(event)},
      {"decision", is_refusal ? "refused" : "allowed"},
      {"identity", record.identity},
      {"role", record.role},
      {"method", record.method},
      {"resource", record.resource},
      {"job_id", record.job_id},
      {"plan", record.plan},
      {"key_ids", record.key_ids},
      {"request_id", record.request_id},
  };
  if (omitted_count > 0) line["omitted_refusals"] = omitted_count;
  line["previous"] = before.digest;
  return line.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

}  // namespace

std::string AuditLineDigest(absl::string_view line) { return Sha256Hex(line); }

int AuditDisk::Append(int descriptor, absl::string_view text) { return WriteAll(descriptor, text); }

int AuditDisk::Flush(int descriptor) { return fdatasync(descriptor) == 0 ? 0 : errno; }

int AuditDisk::Cut(int descriptor, int64_t size) {
  return ftruncate(descriptor, size) == 0 ? 0 : errno;
}

AuditDisk& AuditDisk::Real() {
  static auto& disk = *new AuditDisk;
  return disk;
}

absl::Status AuditFile::OpenFile(FileDescriptor& file, AuditHead& head, int64_t& size) const {
  const auto failed = [this](absl::string_view operation) {
    return AuditError(absl::StatusCode::kFailedPrecondition,
                      ErrnoToStatus(errno, operation, path_).message());
  };
  // Lines go to the end of the file, wherever a failed one was cut off.
  file = FileDescriptor(
      open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.is_open()) return failed("open");
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    return AuditError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat(path_, " is the audit log of another server; give each its own"));
  }
  struct stat info = {};
  if (fstat(file.get(), &info) != 0) return failed("read");
  if (!S_ISREG(info.st_mode)) {
    return AuditError(absl::StatusCode::kFailedPrecondition,
                      absl::StrCat(path_, " is no file; name one"));
  }
  const int64_t begin = std::max<int64_t>(0, info.st_size - kTailBytes);
  std::string tail(static_cast<size_t>(info.st_size - begin), '\0');
  if (pread(file.get(), tail.data(), tail.size(), begin) != static_cast<ssize_t>(tail.size())) {
    return failed("read");
  }
  const size_t end = tail.rfind('\n');
  // Bytes after the last line feed are half a line.
  size = end == std::string::npos ? 0 : begin + static_cast<int64_t>(end) + 1;
  const absl::string_view torn =
      absl::string_view(tail).substr(end == std::string::npos ? 0 : end + 1);
  // Never cuts what no crash of this program left.
  if (!absl::StartsWith(torn, absl::string_view(kLineBegin).substr(0, torn.size()))) {
    return AuditError(absl::StatusCode::kFailedPrecondition,
                      absl::StrCat(path_, " is no audit log; name another file"));
  }
  if (end != std::string::npos) {
    const size_t before = tail.rfind('\n', end == 0 ? 0 : end - 1);
    const size_t first = before == std::string::npos || before >= end ? 0 : before + 1;
    const absl::string_view line = absl::string_view(tail).substr(first, end - first);
    const absl::StatusOr<AuditHead> read = ReadAuditLine(line);
    if (!read.ok()) {
      return AuditError(absl::StatusCode::kFailedPrecondition,
                        absl::StrCat(path_,
                                     " is no audit log, or is damaged: its last line is "
                                     "none of one; move it away, or name another file"));
    }
    head = AuditHead{read->sequence, AuditLineDigest(line)};
  }
  if (size != info.st_size && ftruncate(file.get(), size) != 0) return failed("cut");
  // The name of a new file must survive a power cut as its lines do.
  const absl::Status synced = SyncFolder(FolderOf(path_));
  if (!synced.ok()) return AuditError(absl::StatusCode::kFailedPrecondition, synced.message());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<AuditFile>> AuditFile::Open(const std::string& path,
                                                           Options options) {
  std::unique_ptr<AuditFile> log(new AuditFile(path, std::move(options)));
  {
    const std::lock_guard<std::mutex> lock(log->file_mutex_);
    PARPLAN_RETURN_IF_ERROR(log->OpenFile(log->file_, log->head_, log->size_));
  }
  log->writer_ = StartThread([file = log.get()] { file->WriteWaiting(); });
  if (!log->writer_.joinable()) {
    return AuditError(absl::StatusCode::kFailedPrecondition,
                      absl::StrCat("the system has no thread to write the audit log ", path,
                                   " with; raise the limit of processes (`ulimit -u`)"));
  }
  return log;
}

AuditFile::~AuditFile() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  // Without one if `Open` failed.
  if (writer_.joinable()) writer_.join();
}

absl::Status AuditFile::Reopen() {
  const std::lock_guard<std::mutex> lock(file_mutex_);
  struct stat mine = {};
  struct stat there = {};
  // The same file: opening it again would find it locked.
  if (fstat(file_.get(), &mine) == 0 && stat(path_.c_str(), &there) == 0 &&
      mine.st_dev == there.st_dev && mine.st_ino == there.st_ino) {
    return absl::OkStatus();
  }
  FileDescriptor file;
  AuditHead head = head_;
  int64_t size = 0;
  PARPLAN_RETURN_IF_ERROR(OpenFile(file, head, size));
  if (size == 0 && head.sequence > 0) {
    const std::string line =
        LineOf(AuditRecord(), kContinuation, head, options_.clock->Now(), /*omitted_count=*/0);
    const std::string text = absl::StrCat(line, "\n");
    // Lines that no caller waited for: a power cut must not take what the new file goes on with.
    options_.disk->Flush(file_.get());
    int error = options_.disk->Append(file.get(), text);
    if (error == 0) error = options_.disk->Flush(file.get());
    if (error != 0) {
      // The part of it that may be left is half a line, as a crash leaves one.
      options_.disk->Cut(file.get(), 0);
      return WriteError(error);
    }
    head = AuditHead{head.sequence + 1, AuditLineDigest(line)};
    size = static_cast<int64_t>(text.size());
  }
  // The last chance of the old file to end with a whole line.
  if (is_torn_) options_.disk->Cut(file_.get(), size_);
  file_ = std::move(file);
  head_ = head;
  size_ = size;
  is_torn_ = false;
  return absl::OkStatus();
}

AuditHead AuditFile::head() const {
  const std::lock_guard<std::mutex> lock(file_mutex_);
  return head_;
}

bool AuditFile::Omits(const AuditRecord& record, absl::Time now) {
  if (record.event != AuditRecord::Event::kRefusal) return false;
  if (refusals_.size() >= kMaxCountedIdentities && !refusals_.contains(record.identity)) {
    refusals_.clear();
  }
  Refusals& refusals = refusals_[record.identity];
  const int64_t second = absl::ToUnixSeconds(now);
  if (refusals.second != second) {
    refusals.second = second;
    refusals.written_count = 0;
  }
  if (refusals.written_count < kMaxRefusalsPerSecond && queue_.size() < kMaxQueueLength) {
    ++refusals.written_count;
    return false;
  }
  ++refusals.omitted_count;
  return true;
}

int64_t AuditFile::TakeOmitted(const std::string& identity) {
  const auto found = refusals_.find(identity);
  return found == refusals_.end() ? 0 : std::exchange(found->second.omitted_count, 0);
}

absl::Status AuditFile::Write(const AuditRecord& record) {
  Waiting waiting;
  waiting.record = Shortened(record);
  std::future<absl::Status> outcome;
  if (record.event != AuditRecord::Event::kRefusal) {
    outcome = waiting.outcome.emplace().get_future();
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    // Under the lock, so that the times of the lines do not decrease.
    waiting.time = options_.clock->Now();
    if (Omits(waiting.record, waiting.time)) return absl::OkStatus();
    waiting.omitted_count = TakeOmitted(waiting.record.identity);
    queue_.push_back(std::move(waiting));
    ++taken_count_;
  }
  changed_.notify_all();
  if (!outcome.valid()) return absl::OkStatus();
  const absl::Status status = outcome.get();
  return options_.is_required ? status : absl::OkStatus();
}

void AuditFile::Flush() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this, wanted = taken_count_] { return concluded_count_ >= wanted; });
}

void AuditFile::WriteWaiting() {
  while (true) {
    std::deque<Waiting> batch;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
      if (queue_.empty()) return;
      batch.swap(queue_);
    }
    const absl::Status status = Append(batch);
    Conclude(std::move(batch), status);
  }
}

absl::Status AuditFile::Append(const std::deque<Waiting>& batch) {
  const std::lock_guard<std::mutex> lock(file_mutex_);
  if (is_torn_) {
    if (const int error = options_.disk->Cut(file_.get(), size_); error != 0) {
      return WriteError(error);
    }
    is_torn_ = false;
  }
  std::string text;
  AuditHead head = head_;
  bool is_awaited = false;
  for (const Waiting& waiting : batch) {
    const std::string line = LineOf(waiting.record, EventName(waiting.record.event), head,
                                    waiting.time, waiting.omitted_count);
    absl::StrAppend(&text, line, "\n");
    head = AuditHead{head.sequence + 1, AuditLineDigest(line)};
    is_awaited = is_awaited || waiting.outcome.has_value();
  }
  int error = options_.disk->Append(file_.get(), text);
  if (error == 0 && is_awaited) error = options_.disk->Flush(file_.get());
  if (error != 0) {
    // The next line begins where these did; until the rest is gone, none may.
    is_torn_ = options_.disk->Cut(file_.get(), size_) != 0;
    return WriteError(error);
  }
  head_ = head;
  size_ += static_cast<int64_t>(text.size());
  return absl::OkStatus();
}

void AuditFile::Conclude(std::deque<Waiting> batch, const absl::Status& status) {
  if (!status.ok() && options_.on_failure) {
    options_.on_failure(status, static_cast<int64_t>(batch.size()));
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    concluded_count_ += static_cast<int64_t>(batch.size());
    for (const Waiting& waiting : batch) {
      if (status.ok()) break;
      const bool is_refusal = waiting.record.event == AuditRecord::Event::kRefusal;
      const auto found = refusals_.find(waiting.record.identity);
      if (found == refusals_.end()) continue;
      found->second.omitted_count += waiting.omitted_count + (is_refusal ? 1 : 0);
    }
  }
  changed_.notify_all();
  for (Waiting& waiting : batch) {
    if (!waiting.outcome.has_value()) continue;
    // The log has the path and the cause; callers have no use for them. Each gets a status of its
    // own, because copies share memory that ThreadSanitizer cannot see the library guard.
    absl::Status outcome;
    if (!status.ok()) {
      outcome = AuditError(absl::StatusCode::kUnavailable,
                           "the server cannot write to its audit log, without which it changes "
                           "nothing; try again later");
    }
    waiting.outcome->set_value(std::move(outcome));
  }
}

absl::Status AuditFile::WriteError(int error) const {
  return AuditError(absl::StatusCode::kUnavailable,
                    DescribeErrno(error, absl::StrCat("cannot write to the audit log ", path_)));
}

}  // namespace parplan
