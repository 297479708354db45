// Brings what a journal holds to the server, however long that is away.

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

struct ForwarderOptions {
  // Between two tries: doubles from the first to the longest, each time by a random factor of
  // half to all of it, so that sidecars do not come back all at once.
  absl::Duration first_pause = absl::Seconds(1);
  absl::Duration longest_pause = absl::Minutes(2);
};

// One thread, which sleeps while there is nothing to tell.
class Forwarder {
 public:
  // Tells the server; gives its name of an execution where that was opened. May block as long
  // as its own deadline.
  using Deliver = std::function<absl::StatusOr<std::string>(const JournalTask&)>;
  // Told from the thread after each try.
  using Observer = std::function<void(const JournalTask&, const absl::Status&, bool may_retry)>;

  // `journal` outlives it.
  Forwarder(WindowJournal& journal, Deliver deliver, ForwarderOptions options = {},
            Observer observer = nullptr);
  // Ends after the try under way; what was not told stays in the journal.
  ~Forwarder();

  // Tries at once, and waits until all is told, at most so long; says whether it is.
  bool Flush(absl::Duration timeout);

  // Tries that failed and were or will be repeated.
  int64_t failure_count() const;

 private:
  void Run();
  void Tell(const JournalTask& task);
  // Windows of a batch of which the server refused some.
  void TellOneByOne(JournalTask task);
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

// Whether another try can succeed: the server was away, busy, or wrong itself.
bool MayTellAgain(const absl::Status& status);

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_FORWARDER_H_
