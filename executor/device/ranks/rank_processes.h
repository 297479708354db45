// The ranks of a job as processes of this machine: started, looked after, and ended together.

#ifndef PARPLAN_EXECUTOR_DEVICE_RANKS_RANK_PROCESSES_H_
#define PARPLAN_EXECUTOR_DEVICE_RANKS_RANK_PROCESSES_H_

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "executor/device/comm/rendezvous_server.h"
#include "executor/device/comm/socket.h"

namespace parplan {

// A rank that fails only because another did (UNAVAILABLE, ABORTED of its communicators)
// exits with this, so that the launcher names the other.
inline constexpr int kExitAfterAnother = 75;

struct RankProcessesOptions {
  int rank_count = 1;
  // What every rank runs: a path, `/proc/self/exe` for this program, and its arguments, which
  // anyone on the machine can read.
  std::vector<std::string> argv;
  // Variables besides those of this process, or in their place. RankEnvironment's are set.
  std::map<std::string, std::string> environment;
  // Every rank on a processor of its own, of those this process may use (CoresInOrder); more
  // ranks than processors share them in turn.
  bool pins = true;
  // SIGINT and SIGTERM to this process end the ranks. One object at a time may ask for it.
  bool heeds_signals = false;
  absl::Duration time_limit = absl::InfiniteDuration();
  // What ranks have to end by themselves when one has failed, and again after SIGTERM.
  absl::Duration grace = absl::Seconds(5);
  // A line of a rank's standard error, without its end. On a thread of this object. Not
  // given: goes to this process's own, with the rank before it.
  std::function<void(int rank, absl::string_view line)> on_line;
};

// Ranks are one group of processes; none of them outlives this object, nor this process, of
// whatever it dies. All methods may be called from any thread.
class RankProcesses {
 public:
  // NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED and INTERNAL where no processes can be
  // made of `argv`.
  static absl::StatusOr<std::unique_ptr<RankProcesses>> Start(RankProcessesOptions options);
  // Ends what is still there.
  ~RankProcesses();

  // Until all ranks have ended. OK where all of them exited with 0; else what came first:
  // ABORTED naming the rank and what it died of, DEADLINE_EXCEEDED naming those that had not
  // ended in time, CANCELLED after `Stop` or a signal.
  absl::Status Wait();
  // Ends the ranks (SIGTERM, after the grace SIGKILL) and returns without waiting.
  void Stop(const std::string& why);

  // [rank]
  const std::vector<pid_t>& pids() const { return pids_; }
  // [rank] what it wrote to RankEnvironment::result_descriptor, the first 256 MiB. To be read
  // after `Wait`.
  const std::vector<std::string>& results() const { return results_; }

 private:
  struct Rank;
  class SignalRelay;

  explicit RankProcesses(RankProcessesOptions options);
  // What the thread does.
  void Keep();
  absl::Status Launch();
  void Watch();
  // Reads what there is; closes at the end.
  void TakeLines(int rank);
  void TakeResult(int rank);
  void Say(int rank, absl::string_view line);
  void Bury(const std::vector<int>& dead);
  void Blame(absl::Status cause);
  void HearWake();
  // To all that live.
  void Signal(int signal_number);
  void Escalate();

  const RankProcessesOptions options_;
  std::unique_ptr<RendezvousServer> rendezvous_;
  std::unique_ptr<SignalRelay> relay_;
  // Another thread speaks into the one, the object's thread hears it at the other.
  Socket wake_in_;
  Socket wake_out_;
  std::vector<pid_t> pids_;
  std::vector<std::string> results_;
  std::promise<absl::Status> launched_;
  std::mutex mutex_;
  std::condition_variable ended_;
  // Guarded by mutex_. The outcome is there once all ranks have ended.
  std::string stop_reason_;
  std::optional<absl::Status> outcome_;
  // The rest belongs to the thread.
  std::vector<std::unique_ptr<Rank>> ranks_;
  absl::Status cause_;
  // The cause is what others blame on a rank not known yet.
  bool is_hearsay_ = false;
  enum class Phase { kRunning, kLeaving, kTerminated, kKilled } phase_ = Phase::kRunning;
  absl::Duration next_;
  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_RANKS_RANK_PROCESSES_H_
