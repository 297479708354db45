// What a job told about its executions, kept on disk until the server has it.

#ifndef PARPLAN_CLIENTS_KUBERNETES_WINDOW_JOURNAL_H_
#define PARPLAN_CLIENTS_KUBERNETES_WINDOW_JOURNAL_H_

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

// The next thing the server is to be told about one execution.
struct JournalTask {
  enum class Kind { kOpen, kSend, kClose, kAbandon };
  Kind kind = Kind::kOpen;
  // As the job made it; also its key here.
  v1::CreateExecutionRequest request;
  // The server's name; empty for kOpen.
  std::string execution;
  // Of kSend: at least one.
  std::vector<v1::MeasuredWindow> windows;
  // Of kClose: SUCCEEDED or FAILED, and why; the latter also of kAbandon.
  v1::Execution::State outcome = v1::Execution::STATE_UNSPECIFIED;
  std::string reason;
};

struct JournalCounts {
  int64_t received_window_count = 0;
  int64_t forwarded_window_count = 0;
  // The server will never take them; set aside in the folder, the latest 100 records of them.
  int64_t refused_window_count = 0;
  int64_t waiting_window_count = 0;
  int64_t waiting_byte_count = 0;
  // Records whose content was damaged, set aside.
  int64_t damaged_record_count = 0;
};

// Executions are known here by a name of our own, `{plan}/executions/{request_id}`, which the
// job gets at once; the server's name comes with its answer. What `Append` and `Close` said OK
// to survives the process and is told in order, until the server has it or will never take it.
// Safe to use from any thread.
class WindowJournal {
 public:
  struct Options {
    std::string folder;
    // Of windows that wait, as files on disk.
    int64_t max_byte_count = int64_t{64} << 20;
  };

  // Goes on with what an earlier process left. The errors of RecordFolder::Open.
  static absl::StatusOr<std::unique_ptr<WindowJournal>> Open(const Options& options);

  // Gives our name; the same for the same request. INVALID_ARGUMENT (SPEC_INVALID) for a plan or
  // request id of another form, UNAVAILABLE (STORE_UNAVAILABLE) where the disk refuses.
  absl::StatusOr<std::string> Begin(const v1::CreateExecutionRequest& request);
  // All of `windows`, or none. NOT_FOUND for another name, FAILED_PRECONDITION (EXECUTION_STATE)
  // once it is closed, UNAVAILABLE where there is no room: to be tried again later.
  absl::Status Append(absl::string_view name, absl::Span<const v1::MeasuredWindow> windows);
  // Closing again with the same outcome changes nothing. NOT_FOUND, FAILED_PRECONDITION, and
  // UNAVAILABLE as above.
  absl::Status Close(absl::string_view name, v1::Execution::State outcome,
                     const std::string& reason);
  // As the job knows it: its state, and the windows that were received.
  absl::StatusOr<v1::Execution> Get(absl::string_view name) const;

  // For the one thread that forwards: waits for something to tell, at most so long; absent then
  // and after `Interrupt`.
  std::optional<JournalTask> Next(absl::Duration timeout);
  // The server took the task that `Next` gave; `execution` is what it calls an opened one.
  void Done(const std::string& execution = "");
  // The server will never take it. Windows are set aside; so is all of an execution that can't
  // be opened. `is_closed`: nor will it take others of this execution, so `Append` does not either.
  void Refuse(bool is_closed = false);
  // Of the windows of the task the server took these; the others stay refused.
  void RefuseSome(absl::Span<const v1::MeasuredWindow> refused);

  // Nobody reports any more: the server is told so of executions that run, after all else. Here
  // they stay open, for who opens this folder next: perhaps not the job ended, but this process.
  void Abandon(const std::string& reason);

  // `Next` returns at once, now and ever after.
  void Interrupt();
  // Whether nothing is left to tell but the end of executions that go on.
  bool is_empty() const;
  JournalCounts counts() const;

 private:
  struct Batch {
    std::string record;
    int64_t window_count = 0;
    // On disk.
    int64_t byte_count = 0;
  };
  struct Entry {
    v1::CreateExecutionRequest request;
    // The server's name, once known; state and reason as the job told them.
    v1::Execution execution;
    std::string record;
    std::deque<Batch> batches;
    int64_t received_window_count = 0;
    bool is_finished = false;
    // The server knows that nobody reports, by this process.
    bool is_abandoned = false;
  };
  enum class Step { kNone, kOpen, kSend, kClose, kAbandon };

  explicit WindowJournal(const Options& options) : options_(options), aside_(options.folder) {}
  absl::Status Load();
  absl::Status Store(const Entry& entry);
  absl::StatusOr<Entry*> Find(absl::string_view name);
  Step StepOf(const Entry& entry) const;
  // The oldest entry with something to tell, null where there is none.
  Entry* Ready();
  std::optional<JournalTask> Read(Entry& entry);
  void DropBatch(Entry& entry, const char* aside);
  // Keeps a record for people, as long as it is among the latest.
  absl::Status SetAside(const std::string& record, const char* why);
  void Finish(Entry& entry);
  void ForgetOld();

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_, as the rest.
  std::unique_ptr<RecordFolder> folder_;
  // By number, in the order in which they were opened; ids lead to numbers.
  std::map<int64_t, Entry> entries_;
  std::map<std::string, int64_t, std::less<>> numbers_;
  int64_t next_number_ = 1;
  JournalCounts counts_;
  AsideFiles aside_;
  // Why nobody reports any more.
  std::optional<std::string> abandon_reason_;
  bool is_interrupted_ = false;
  // Of the task given last.
  int64_t current_ = 0;
  Step current_step_ = Step::kNone;
};

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_WINDOW_JOURNAL_H_
