// An audit log in a file: one JSON object a line, each with the digest of the line before, so that
// a line that was changed or taken out shows (`VerifyAuditFile`). server/main/main.cc opens one.
//
//   {"sequence":2,"time":"2026-11-25T21:00:00.5Z","event":"signature","decision":"allowed",
//    "identity":"dns:slurm.example","role":"planner","method":"CreatePlan",
//    "resource":"clusters/lab","job_id":"4711","plan":"clusters/lab/plans/4f...",
//    "key_ids":["..."],"request_id":"...","previous":"<SHA-256 of line 1>"}

#ifndef PARPLAN_SERVER_AUDIT_AUDIT_FILE_H_
#define PARPLAN_SERVER_AUDIT_AUDIT_FILE_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/system/clock.h"
#include "base/system/posix_file.h"
#include "server/audit/audit_record.h"

namespace parplan {

// The last line of a log: its number (`sequence`, from 1), and the SHA-256 of its bytes without the
// line feed, in lower-case hexadecimal. Number 0 and 64 zeros before the first line.
struct AuditHead {
  int64_t sequence = 0;
  std::string digest = std::string(64, '0');
  friend bool operator==(const AuditHead&, const AuditHead&) = default;
};

// The operations of the system that a log depends on, which a test replaces. Each returns 0 or a
// value of errno. One log calls it from one thread at a time; tests apart, all logs share `Real()`.
class AuditDisk {
 public:
  virtual ~AuditDisk() = default;

  // Appends all of `text` to the file, or the beginning of it and an error.
  virtual int Append(int descriptor, absl::string_view text);
  // Waits until what was appended survives a power cut.
  virtual int Flush(int descriptor);
  // Cuts the file to `size` bytes.
  virtual int Cut(int descriptor, int64_t size);

  // Returns the one of the system. It lives as long as the process.
  static AuditDisk& Real();
};

// Safe to use from any thread. One thread of the log writes all lines: those that arrive while it
// waits for the disk are written, and flushed, together. So a hundred callers wait for two flushes
// and not for a hundred.
class AuditFile : public AuditSink {
 public:
  // How a log is kept.
  struct Options {
    // Whether a record that cannot be written is an error.
    bool is_required = false;
    // Called after each failure with its error (UNAVAILABLE, AUDIT_UNAVAILABLE) and the number of
    // records it concerns, on the thread of the log, which waits for it; it must not call the log.
    // May be empty.
    std::function<void(const absl::Status& status, int64_t record_count)> on_failure;
    // The time of the lines. Neither this nor `disk` may be null.
    const Clock* clock = &Clock::Real();
    AuditDisk* disk = &AuditDisk::Real();
  };

  // Refusals of one identity that are written in a second. What comes beyond is counted in the
  // identity's next line (`omitted_refusals`), so that no caller fills the disk by being refused.
  static constexpr int kMaxRefusalsPerSecond = 20;
  // Identities whose refusals are counted; when there are more, all counts are lost and start anew.
  static constexpr size_t kMaxCountedIdentities = 4096;
  // Records that wait, beyond which refusals are only counted, as those above: no caller waits for
  // their lines, so that nothing else bounds them while a disk hangs. A record takes up to 20 KB.
  static constexpr size_t kMaxQueueLength = 1024;

  // Opens the log at `path`, or makes one that only its owner can read, and goes on after its last
  // line; lines before it are not checked, nor are the permissions of a file that is there. Cuts
  // off a last line without its end, which a crash left before any answer. FAILED_PRECONDITION
  // (AUDIT_UNAVAILABLE) if the file cannot be opened, read or cut, its folder cannot be synced, it
  // is a symbolic link or no regular file, another server has it open, its last line, or what
  // follows it, is none of an audit log, or the system has no thread for the log. `clock` and
  // `disk` must outlive the log.
  static absl::StatusOr<std::unique_ptr<AuditFile>> Open(const std::string& path, Options options);

  // Writes the records that wait, for as long as the disk takes.
  ~AuditFile() override;

  AuditFile(const AuditFile&) = delete;
  AuditFile& operator=(const AuditFile&) = delete;

  // Waits until the record is on the disk, without a limit if the disk hangs; not for a refusal,
  // which returns OK at once. UNAVAILABLE (AUDIT_UNAVAILABLE) if it is not there and `is_required`;
  // without `is_required` always OK. A record that could not be written is not tried again, and
  // those that were to be written with it fail too; the next one is tried anew. What a failed
  // writing left of a line is cut off, at the latest before the next line. A refusal that could not
  // be written is counted in the identity's next line. Texts of the record above 4096 bytes are
  // cut, and so are the identities by which refusals are counted; ids of keys are not.
  absl::Status Write(const AuditRecord& record) override;

  // Waits, without a limit if the disk hangs, until the records that were handed over before are in
  // the file, or failed. Refusals alone are then in the file, but need not have reached the disk.
  void Flush();

  // Opens `path` again, after the file was renamed to be kept elsewhere; does nothing if `path` is
  // still the file in use. A new or empty file goes on with number and digest of the old one, by a
  // line of its own (event `continuation`), a file with lines after its own last
  // line. Records that wait go to the file that is opened. Returns the errors of `Open`,
  // UNAVAILABLE (AUDIT_UNAVAILABLE) if that line cannot be written; the old file stays in use then.
  // May wait for the disk.
  absl::Status Reopen();

  // Returns the last line written, of this file or those before. May wait for the disk.
  AuditHead head() const;

 private:
  struct Refusals {
    int64_t second = 0;
    int written_count = 0;
    int64_t omitted_count = 0;
  };

  // A record on its way to the file.
  struct Waiting {
    AuditRecord record;
    absl::Time time;
    // Refusals that its line counts.
    int64_t omitted_count = 0;
    // Hears how it went; absent if no caller waits.
    std::optional<std::promise<absl::Status>> outcome;
  };

  AuditFile(std::string path, Options options)
      : path_(std::move(path)), options_(std::move(options)) {}

  // Opens the file and reads its head; that stays for an empty file.
  absl::Status OpenFile(FileDescriptor& file, AuditHead& head, int64_t& size) const;

  // Runs on the thread of the log.
  void WriteWaiting();
  // Writes the lines of a batch, which is not empty, and flushes them if anybody waits.
  absl::Status Append(const std::deque<Waiting>& batch);
  // Reports how it went to all who wait.
  void Conclude(std::deque<Waiting> batch, const absl::Status& status);
  absl::Status WriteError(int error) const;

  // Returns whether a refusal is only counted. REQUIRES: `mutex_` is held.
  bool Omits(const AuditRecord& record, absl::Time now);
  int64_t TakeOmitted(const std::string& identity);

  const std::string path_;
  const Options options_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_, as the next ones.
  std::deque<Waiting> queue_;
  std::map<std::string, Refusals> refusals_;
  int64_t taken_count_ = 0;      // Records that were handed over.
  int64_t concluded_count_ = 0;  // Of these, those that are written or failed.
  bool ending_ = false;

  mutable std::mutex file_mutex_;  // Held while the disk works; never taken under `mutex_`.
  // Guarded by file_mutex_, as the next ones.
  FileDescriptor file_;
  AuditHead head_;
  int64_t size_ = 0;  // Bytes up to the end of the last whole line.
  // Whether half a line may follow, because it could not be cut off.
  bool is_torn_ = false;

  std::thread writer_;
};

// Returns the digest of a line, given without its line feed.
std::string AuditLineDigest(absl::string_view line);

}  // namespace parplan

#endif  // PARPLAN_SERVER_AUDIT_AUDIT_FILE_H_
