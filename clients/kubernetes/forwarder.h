// Sends the contents of a WindowJournal to the server, and repeats for as long as the server can't
// be reached. `parplan-sidecar run` has one.

#ifndef PARPLAN_CLIENTS_KUBERNETES_FORWARDER_H_
#define PARPLAN_CLIENTS_KUBERNETES_FORWARDER_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "clients/kubernetes/window_journal.h"

namespace parplan::sidecar {

// How long the forwarder waits between two tries.
struct ForwarderOptions {
  // The first and the longest pause between two tries. The pause doubles from the first to the
  // longest; each is multiplied by a random factor from 0.5 to 1, so that sidecars do not all come
  // back at the same moment. Not measured: 1 s is shorter than a restart of a server, 2 min bounds
  // the delay after a long outage.
  absl::Duration first_pause = absl::Seconds(1);
  absl::Duration longest_pause = absl::Minutes(2);
};

// Sends on a thread of its own, which sleeps while there is nothing to send.
class Forwarder {
 public:
  // Sends one task to the server. Returns the server's name of the task's execution, which is used
  // for kOpen alone. Called on the forwarder's thread; may block until its own deadline. What an
  // error causes:
  //   - `MayRetry` is true: the task is tried again, without a limit.
  //   - INVALID_ARGUMENT for a task with several windows: they are sent one by one, and the journal
  //     refuses the windows that fail again.
  //   - Otherwise the journal refuses the task, with `is_closed` if the reason is EXECUTION_STATE.
  using Deliver = std::function<absl::StatusOr<std::string>(const JournalTask&)>;
  // Called on the forwarder's thread after each try of a task, before the journal knows the outcome
  // of the try, but not for windows that are sent one by one. May be null.
  using Observer = std::function<void(const JournalTask&, const absl::Status&, bool may_retry)>;

  // Starts the thread. REQUIRES, unchecked: `journal` outlives the forwarder and has no other
  // forwarder; `deliver` is not null.
  Forwarder(WindowJournal& journal, Deliver deliver, ForwarderOptions options = {},
            Observer observer = nullptr);
  // Interrupts the journal, which then gives no more tasks, and waits for the try in progress: one
  // task, or one window if windows are sent one by one. Everything that was not sent stays on disk.
  // REQUIRES, unchecked: no `Flush` is running.
  ~Forwarder();

  // Tries without delay, pauses at most `first_pause` between tries, and waits until the journal is
  // empty (`is_empty`), but no longer than `timeout`. Returns whether the journal is empty, because
  // everything was sent or refused. Like `failure_count` safe to call from any thread. REQUIRES,
  // unchecked: `timeout` is finite.
  bool Flush(absl::Duration timeout);

  // Returns the number of tries that failed and were or will be repeated.
  int64_t failure_count() const;

 private:
  void Run();
  // Sends one task, and records the outcome in the journal.
  void Send(const JournalTask& task);
  // Sends the windows of a batch one by one, after the server refused some of them. Leaves the
  // batch in the journal if the forwarder ends meanwhile.
  void SendOneByOne(JournalTask task);
  void Pause();

  WindowJournal& journal_;
  const Deliver deliver_;
  const ForwarderOptions options_;
  const Observer observer_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  bool is_ending_ = false;
  bool is_hurried_ = false;
  int failures_in_a_row_ = 0;
  int64_t failure_count_ = 0;
  std::thread thread_;
};

// Returns whether another try can succeed. False for INVALID_ARGUMENT, NOT_FOUND,
// FAILED_PRECONDITION, UNIMPLEMENTED, and RESOURCE_EXHAUSTED with UPLOAD_TOO_LARGE. True for every
// other error: the server could not be reached, was busy or failed itself, or a certificate or role
// may be put right. True for OK as well.
bool MayRetry(const absl::Status& status);

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_FORWARDER_H_
