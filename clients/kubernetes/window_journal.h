// Keeps what a job reported about its executions on disk until the server has it. `ReportService`
// appends to it, and `Forwarder` empties it.

#ifndef PARPLAN_CLIENTS_KUBERNETES_WINDOW_JOURNAL_H_
#define PARPLAN_CLIENTS_KUBERNETES_WINDOW_JOURNAL_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "clients/delivery/record_folder.h"
#include "clients/kubernetes/aside_files.h"
#include "parplan/v1/execution.pb.h"
#include "parplan/v1/execution_service.pb.h"

namespace parplan::sidecar {

// The next thing to send to the server about one execution: open it, send windows, close it as the
// job did, or say that its job has stopped reporting.
struct JournalTask {
  // The four things, in the order in which the head of this struct names them.
  enum class Kind { kOpen, kSend, kClose, kAbandon };
  Kind kind = Kind::kOpen;
  // The request of the job; the local name is made of its plan and request id.
  v1::CreateExecutionRequest request;
  // The server's name of the execution; empty for kOpen.
  std::string execution;
  // Windows to send: those of one `Append` for kSend, at least one; else empty.
  std::vector<v1::MeasuredWindow> windows;
  // All windows of the execution that wait, those above included.
  int64_t waiting_window_count = 0;
  // Outcome (SUCCEEDED or FAILED) and reason for kClose, the reason alone for kAbandon.
  v1::Execution::State outcome = v1::Execution::STATE_UNSPECIFIED;
  std::string reason;
};

// Counts since this process opened the folder; windows that an earlier process left count as
// received.
struct JournalCounts {
  // Windows that were stored in the folder, and those of them that the server then took.
  int64_t received_window_count = 0;
  int64_t forwarded_window_count = 0;
  // Windows that the server will never take, or whose record was damaged after it had been stored.
  // The latest 100 records are set aside in the folder.
  int64_t refused_window_count = 0;
  // Windows that still wait, and their size on disk in bytes.
  int64_t waiting_window_count = 0;
  int64_t waiting_byte_count = 0;
  // Records whose content was damaged, set aside.
  int64_t damaged_record_count = 0;
};

// A queue on disk. Executions have local names, `{plan}/executions/{request_id}`, which the job
// gets at once; the server's name comes with its answer. Everything that `Begin`, `Append` and
// `Close` returned OK for survives the process and is sent, in order within an execution and the
// oldest execution first, until the server has it or will never take it. One process a folder. Safe
// to use from any thread.
class WindowJournal {
 public:
  struct Options {
    std::string folder;
    // Limit of the windows that wait, in bytes on disk, where the record of each `Append` takes
    // whole blocks of 4 KiB (not measured). An `Append` that is larger by itself never fits.
    int64_t max_byte_count = int64_t{64} << 20;
  };

  // Continues with what an earlier process left; sets aside damaged records. Returns the errors of
  // RecordFolder::Open, and UNAVAILABLE (STORE_UNAVAILABLE) if the folder or a record can't be
  // read, or a record not set aside.
  static absl::StatusOr<std::unique_ptr<WindowJournal>> Open(const Options& options);

  // Opens an execution. Returns the local name. If there is one of this plan and request id, open
  // or ended, returns its name and changes nothing. INVALID_ARGUMENT (SPEC_INVALID) for a malformed
  // plan name (`parent`) or request id, also an empty one; UNAVAILABLE (STORE_UNAVAILABLE) if the
  // disk fails.
  absl::StatusOr<std::string> Begin(const v1::CreateExecutionRequest& request);
  // Stores all of `windows`, or none; OK if there are none. NOT_FOUND (RESOURCE_NOT_FOUND) for an
  // unknown name. An execution that is finished, because the server has or has refused all of it,
  // is forgotten when the process ends, or earlier if more than 64 are finished, the oldest first.
  // FAILED_PRECONDITION (EXECUTION_STATE) once the execution is closed, by the job or by a refusal;
  // UNAVAILABLE (STORE_UNAVAILABLE) if there is no room or the disk fails: try again later.
  absl::Status Append(absl::string_view name, absl::Span<const v1::MeasuredWindow> windows);
  // Closes an execution; closing again with the same outcome changes nothing. Returns NOT_FOUND as
  // `Append`, FAILED_PRECONDITION (EXECUTION_STATE) if it ended with another outcome, UNAVAILABLE
  // (STORE_UNAVAILABLE) if the disk fails. `reason` says why it failed. REQUIRES, unchecked:
  // `outcome` is SUCCEEDED or FAILED.
  absl::Status Close(absl::string_view name, v1::Execution::State outcome,
                     const std::string& reason);
  // Returns the execution under its local name: its state, failure reason, and the number of
  // windows that this process received or found on disk. NOT_FOUND in the cases of `Append`.
  absl::StatusOr<v1::Execution> Get(absl::string_view name) const;

  // Waits for something to send, at most `timeout`; returns nothing then and after `Interrupt`. The
  // windows of an execution wait while the system does not let their record be read, and those of
  // others go before them.
  // REQUIRES, unchecked: `timeout` is finite; one thread forwards, and calls one of `Done`,
  // `Refuse` and `RefuseSome` at most once for each task. If it calls none, as for an error that
  // may pass, a later call returns the task again, unless an older execution has something to send
  // by then.
  std::optional<JournalTask> Next(absl::Duration timeout);
  // Records that the server took the task of `Next`; for kOpen `execution` is the server's name.
  void Done(const std::string& execution = "");
  // Records that the server will never take the task. Windows are set aside; so are all windows of
  // an execution that can't be opened. After a refusal of another task than kSend, and with
  // `is_closed`, the execution counts as failed: `Append` takes no other windows of it.
  void Refuse(bool is_closed = false);
  // Records that the server refused `refused` of the task's windows, and took the others. REQUIRES,
  // unchecked: the task is kSend.
  void RefuseSome(absl::Span<const v1::MeasuredWindow> refused);

  // Records that no more reports come: running executions are abandoned at the server, after all
  // else was sent. Here they stay open for the next process that opens this folder: perhaps only
  // this process ends, and not the job.
  void Abandon(const std::string& reason);

  // Makes `Next` return nothing at once from now on.
  void Interrupt();
  // Returns whether nothing is left to send, except the end of executions that still run; after
  // `Abandon` that counts too, until the server has it.
  bool is_empty() const;
  // Returns the counts of this moment.
  JournalCounts counts() const;

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Batch {
    std::string record;
    int64_t window_count = 0;
    // Size on disk.
    int64_t byte_count = 0;
  };
  struct Entry {
    v1::CreateExecutionRequest request;
    // Has the server's name once it is known, and the state and reason that the job reported.
    v1::Execution execution;
    std::string record;
    std::deque<Batch> batches;
    int64_t received_window_count = 0;
    bool is_finished = false;
    // Whether this process has abandoned it at the server.
    bool is_abandoned = false;
    // Time before which its windows are not read, since the last attempt failed.
    Time next_read;
  };
  enum class Step { kNone, kOpen, kSend, kClose, kAbandon };

  explicit WindowJournal(const Options& options) : options_(options), aside_(options.folder) {}
  absl::Status Load();
  absl::Status Store(const Entry& entry);
  absl::StatusOr<Entry*> Find(absl::string_view name);
  Step StepOf(const Entry& entry) const;
  // Returns the oldest entry with something to send at `now`; null if there is none.
  Entry* Ready(Time now);
  // Returns when the first entry that could not be read is to be read again; at most `latest`.
  Time NextRead(Time latest) const;
  // Returns the task of an entry that is ready. DATA_LOSS if its windows were damaged, which are
  // then set aside; UNAVAILABLE if they can't be read now, and are to be read again later.
  absl::StatusOr<JournalTask> Read(Entry& entry);
  void DropBatch(Entry& entry, const char* aside);
  // Keeps a record for people to look at, while it is among the latest.
  absl::Status SetAside(const std::string& record, const char* why);
  void Finish(Entry& entry);
  void ForgetOld();

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_, as the rest.
  std::unique_ptr<RecordFolder> folder_;
  // Entries by number, in the order of opening; and numbers by local name.
  std::map<int64_t, Entry> entries_;
  std::map<std::string, int64_t, std::less<>> numbers_;
  int64_t next_number_ = 1;
  JournalCounts counts_;
  AsideFiles aside_;
  // The reason of `Abandon`.
  std::optional<std::string> abandon_reason_;
  bool is_interrupted_ = false;
  // Number of the entry whose task was returned last.
  int64_t current_ = 0;
  Step current_step_ = Step::kNone;
};

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_WINDOW_JOURNAL_H_
