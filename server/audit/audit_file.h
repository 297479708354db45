// An audit log in a file: one JSON object a line, each with the digest of the line before, so that
// `VerifyAuditFile` (audit_verifier.h) detects a line that was changed or removed. If the last
// lines are removed, only `head` shows it. server/main/main.cc opens one.
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

// The system calls by which a log writes lines, so that a test can replace them. Opening a file
// does not go through here. Each returns 0 or a value of errno. A log calls its disk from one
// thread at a time; outside tests all logs have the same disk, `Real()`.
class AuditDisk {
 public:
  virtual ~AuditDisk() = default;

  // Appends `text`. After an error the file may end with a part of `text`.
  virtual int Append(int descriptor, absl::string_view text);
  // Waits until the lines that were appended survive a power cut.
  virtual int Flush(int descriptor);
  // Truncates the file to `size` bytes.
  virtual int Cut(int descriptor, int64_t size);

  // Returns the disk of this system. It lives as long as the process.
  static AuditDisk& Real();
};

// Safe to use from any thread. One thread of the log writes all lines. Records that arrive while
// the thread waits for the disk form the next batch, which is written and flushed as a whole. So a
// caller waits for at most two flushes: the one in progress and that of its own batch.
//
// A refusal is a record with `Event::kRefusal` (audit_record.h). No caller waits for its line.
class AuditFile : public AuditSink {
 public:
  // How a log is kept.
  struct Options {
    // Whether `Write` fails if its record cannot be written. If false, `Write` returns OK and only
    // `on_failure` reports the failure.
    bool is_required = false;
    // Called once for each batch that could not be written, with the error (UNAVAILABLE,
    // AUDIT_UNAVAILABLE) and the number of records in the batch. The thread of the log runs this
    // function and writes nothing meanwhile, so the function must not call the log. May be empty.
    std::function<void(const absl::Status& status, int64_t record_count)> on_failure;
    // Clock for `time` in the lines, which is the time of `Write`. Not null; must outlive the log.
    const Clock* clock = &Clock::Real();
    // Not null; must outlive the log.
    AuditDisk* disk = &AuditDisk::Real();
  };

  // Largest number of refusals of one identity that are written in one second. Further ones are
  // omitted: the identity's next line only counts them (`omitted_refusals`), so that no caller
  // fills the disk by being refused.
  static constexpr int kMaxRefusalsPerSecond = 20;
  // Largest number of identities whose refusals are counted. The first refusal of a further
  // identity clears the counts of all identities: omitted refusals that no line counts yet are
  // lost, and kMaxRefusalsPerSecond more refusals of each identity may be written in that second.
  static constexpr size_t kMaxCountedIdentities = 4096;
  // Length of the queue from which on refusals are omitted, as beyond kMaxRefusalsPerSecond.
  // Without this limit a disk that hangs would let the queue grow, because refusals do not block
  // their callers. A refusal takes up to 20 KB.
  static constexpr size_t kMaxQueueLength = 1024;

  // Opens the log at `path` and goes on after its last line, or makes a log that only its owner can
  // read. Neither earlier lines nor the permissions of an existing file are checked. Removes an
  // incomplete last line: a crash left it, and no caller was answered that it was written.
  //
  // FAILED_PRECONDITION (AUDIT_UNAVAILABLE) if
  //   - the file cannot be opened, read or truncated, or its folder cannot be synced;
  //   - it is a symbolic link or no regular file;
  //   - another log has it open, in this process or another (flock);
  //   - its last complete line, or the incomplete text after that, is not from an audit log;
  //   - no thread can be started.
  static absl::StatusOr<std::unique_ptr<AuditFile>> Open(const std::string& path, Options options);

  // Writes the records in the queue, and waits for that as long as the disk takes. REQUIRES,
  // unchecked: no other call is running.
  ~AuditFile() override;

  AuditFile(const AuditFile&) = delete;
  AuditFile& operator=(const AuditFile&) = delete;

  // Appends a line for `record`.
  //   - A refusal returns OK at once and is written later.
  //   - Any other record waits until its line has reached the disk, without a limit if the disk
  //     hangs. If the line could not be written: UNAVAILABLE (AUDIT_UNAVAILABLE) with
  //     `is_required`, else OK.
  // If a batch fails, all of its records fail and none is tried again; they use no `sequence`. The
  // next batch is tried anyway, after the part of a line that may be left was truncated. A refusal
  // that could not be written counts as omitted. Texts of the record are cut to 4096 bytes with a
  // note of their length, except `key_ids`; refusals are counted by the identity after the cut.
  absl::Status Write(const AuditRecord& record) override;

  // Waits, without a limit if the disk hangs, until all records that were passed to `Write` before
  // are in the file or have failed. A batch of nothing but refusals is not flushed: its lines are
  // in the file, but may not survive a power cut.
  void Flush();

  // Opens `path` again, after the file was renamed to be kept elsewhere; the server calls it on
  // SIGHUP. Does nothing if `path` still names the file in use.
  //   - A new or empty file begins with a line whose event is `continuation`, and which goes on
  //     with `sequence` and digest of the old file.
  //   - A file that already has lines goes on after its own last line, with no link to the old
  //     file.
  // Records in the queue go to the file that was opened. Returns the errors of `Open` except that
  // of the thread, and UNAVAILABLE (AUDIT_UNAVAILABLE) if the `continuation` line cannot be
  // written. After any error the old file stays in use. May wait for the disk.
  absl::Status Reopen();

  // Returns number and digest of the last line that was written, to this file or an earlier one.
  // May wait for the disk.
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
    // Omitted refusals of the same identity that its line counts.
    int64_t omitted_count = 0;
    // Receives the outcome; absent if no caller waits.
    std::optional<std::promise<absl::Status>> outcome;
  };

  AuditFile(std::string path, Options options)
      : path_(std::move(path)), options_(std::move(options)) {}

  // Opens the file and reads `head` and `size` from it; leaves `head` as it is for a file without
  // lines.
  absl::Status OpenFile(FileDescriptor& file, AuditHead& head, int64_t& size) const;

  // Runs on the thread of the log.
  void WriteWaiting();
  // Writes the lines of a batch, which is not empty, and flushes them if a caller waits.
  absl::Status Append(const std::deque<Waiting>& batch);
  // Reports the outcome of a batch to its callers.
  void Conclude(std::deque<Waiting> batch, const absl::Status& status);
  absl::Status WriteError(int error) const;

  // Returns whether `record` is a refusal that is to be omitted, and counts a refusal either way.
  // REQUIRES, here and in the next, unchecked: `mutex_` is held.
  bool Omits(const AuditRecord& record, absl::Time now);
  // Returns the number of omitted refusals of an identity that no line counts yet, and sets it to
  // 0.
  int64_t TakeOmitted(const std::string& identity);

  const std::string path_;
  const Options options_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_, as the next ones.
  std::deque<Waiting> queue_;
  std::map<std::string, Refusals> refusals_;
  int64_t taken_count_ = 0;      // Records that entered the queue.
  int64_t concluded_count_ = 0;  // Those of them that are written or have failed.
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
