// An audit log in a file: one JSON object a line, each with the digest of the line before, so that
// a line that was changed or taken out shows (`VerifyAuditFile`).
//
//   {"sequence":2,"time":"2026-11-25T21:00:00.5Z","event":"signature","decision":"allowed",
//    "identity":"dns:slurm.example","role":"planner","method":"CreatePlan",
//    "resource":"clusters/lab","job_id":"4711","plan":"clusters/lab/plans/4f...",
//    "key_ids":["..."],"request_id":"...","previous":"<SHA-256 of line 1>"}

#ifndef PARPLAN_SERVER_AUDIT_AUDIT_FILE_H_
#define PARPLAN_SERVER_AUDIT_AUDIT_FILE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/system/clock.h"
#include "base/system/posix_file.h"
#include "server/audit/audit_record.h"

namespace parplan {

// The last line of a log: its number, and the SHA-256 of its bytes without the line feed, in
// lower-case hexadecimal. Number 0 and 64 zeros before the first line.
struct AuditHead {
  int64_t sequence = 0;
  std::string digest = std::string(64, '0');
  friend bool operator==(const AuditHead&, const AuditHead&) = default;
};

// Safe to use from any thread. The write of a durable record waits for the disk.
class AuditFile : public AuditSink {
 public:
  struct Options {
    // Whether a record that cannot be written is an error.
    bool is_required = false;
    // Called with each failure, on the thread that writes.
    std::function<void(const absl::Status&)> on_failure;
    const Clock* clock = &Clock::Real();
  };

  // Refusals of one identity that are written in a second. What comes beyond is counted in the
  // identity's next line (`omitted_refusals`), so that no caller fills the disk by being refused.
  static constexpr int kMaxRefusalsPerSecond = 20;
  // Identities whose refusals are counted; when there are more, all counts start anew.
  static constexpr size_t kMaxCountedIdentities = 4096;

  // Opens the log at `path`, or makes one that only its owner can read, and goes on after its last
  // line. Cuts off a last line without its end, which a crash left before any answer.
  // FAILED_PRECONDITION (AUDIT_UNAVAILABLE) if the file cannot be opened, another server has it
  // open, or its last line is none of an audit log.
  static absl::StatusOr<std::unique_ptr<AuditFile>> Open(const std::string& path, Options options);

  // UNAVAILABLE (AUDIT_UNAVAILABLE) if the record is not on the disk and `is_required`. A line is
  // in the file whole or not at all.
  absl::Status Write(const AuditRecord& record) override;

  // Opens `path` again, after it was renamed to be kept elsewhere. The new file goes on with
  // number and digest of the old one. The errors of `Open`; the old file stays in use then.
  absl::Status Reopen();

  // Returns the last line written.
  AuditHead head() const;

 private:
  struct Refusals {
    int64_t second = 0;
    int written_count = 0;
    int64_t omitted_count = 0;
  };

  AuditFile(std::string path, Options options)
      : path_(std::move(path)), options_(std::move(options)) {}

  // Opens the file and reads its head; absent for an empty file.
  absl::Status OpenFile(FileDescriptor& file, AuditHead& head, int64_t& size) const;
  absl::Status Append(const AuditRecord& record, absl::Time now, int64_t omitted_count);
  // Returns whether a refusal is only counted.
  bool Omits(const AuditRecord& record, absl::Time now);
  int64_t TakeOmitted(const std::string& identity);

  const std::string path_;
  const Options options_;
  mutable std::mutex mutex_;
  // Guarded by mutex_, as the rest.
  FileDescriptor file_;
  AuditHead head_;
  int64_t size_ = 0;  // Bytes up to the end of the last whole line.
  std::map<std::string, Refusals> refusals_;
};

// Returns the digest of a line, given without its line feed.
std::string AuditLineDigest(absl::string_view line);

}  // namespace parplan

#endif  // PARPLAN_SERVER_AUDIT_AUDIT_FILE_H_
