// The ranks of a job as processes of this machine: started, watched, and ended together.
// `parplan-exec --ranks` starts its ranks with it, and the agent (profiler-agent/measure) those
// that measure.
//
//   PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<RankProcesses> ranks,
//                            RankProcesses::Start({.rank_count = 2, .argv = {"/proc/self/exe"}}));
//   PARPLAN_RETURN_IF_ERROR(ranks->Wait());
//   const std::string& result = ranks->results()[0];

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

// Exit status of a rank that failed only because another did (UNAVAILABLE or ABORTED from its
// communicators), so that the launcher names the other.
inline constexpr int kExitAfterAnother = 75;

// The program of the ranks, and how they run.
struct RankProcessesOptions {
  int rank_count = 1;
  // Path of the program that every rank runs, `/proc/self/exe` for this one, and its arguments,
  // which all users of the machine can read.
  std::vector<std::string> argv;
  // Variables added to those of this process, or replacing them. Those of RankEnvironment
  // (PARPLAN_RANK and the like) are set without this, and replace any of the same name.
  std::map<std::string, std::string> environment;
  // Whether each rank is bound to a processor of those this process may use (CoresInOrder); with
  // more ranks than processors several ranks share one.
  bool pins = true;
  // Whether SIGINT and SIGTERM to this process end the ranks; for one object at a time.
  bool heeds_signals = false;
  // Limit on the run time of all ranks, from their start.
  absl::Duration time_limit = absl::InfiniteDuration();
  // Time for ranks to end by themselves once one has failed, and again after SIGTERM.
  absl::Duration grace = absl::Seconds(5);
  // Takes a line of a rank's standard error, without its end, on a thread of this object; lines of
  // 16 KiB and more come in pieces. Null: the line goes to this process's standard error, after the
  // rank's number.
  std::function<void(int rank, absl::string_view line)> on_line;
};

// The ranks are one process group; they have an empty standard input and this process's standard
// output. None of them outlives this object, or this process however it ends. All methods may be
// called from any thread.
class RankProcesses {
 public:
  // Starts the ranks. INVALID_ARGUMENT for no ranks or no program, UNAVAILABLE if the rendezvous
  // cannot be served or the system gives no random numbers, RESOURCE_EXHAUSTED for descriptors, and
  // the errors of StartChild; then no rank is left.
  static absl::StatusOr<std::unique_ptr<RankProcesses>> Start(RankProcessesOptions options);
  // Ends the ranks that still run, as `Stop` does, and waits for that. REQUIRES, unchecked: no
  // thread is in `Wait`.
  ~RankProcesses();

  // Waits until all ranks have ended. OK if all of them exited with 0; else the first cause:
  // ABORTED naming the rank and how it ended, DEADLINE_EXCEEDED naming the ranks that had not ended
  // in time, CANCELLED after `Stop` or a signal.
  absl::Status Wait();
  // Ends the ranks (SIGTERM, after the grace SIGKILL) and returns without waiting. The first `why`
  // and the first cause stay: if a rank has failed before, `Wait` still names that rank.
  void Stop(const std::string& why);

  // [rank] its process id, also of a rank that has ended.
  const std::vector<pid_t>& pids() const { return pids_; }
  // [rank] what it wrote to RankEnvironment::result_descriptor; what is beyond 256 MiB is dropped.
  // Read it after `Wait`.
  const std::vector<std::string>& results() const { return results_; }

 private:
  struct Rank;
  class SignalRelay;

  explicit RankProcesses(RankProcessesOptions options);
  // The code of the thread.
  void Keep();
  absl::Status Launch();
  void Watch();
  // Read what has arrived; close the descriptor at its end.
  void TakeLines(int rank);
  void TakeResult(int rank);
  void Say(int rank, absl::string_view line);
  void Bury(const std::vector<int>& dead);
  void Blame(absl::Status cause);
  void HearWake();
  // Sends a signal to all ranks that live.
  void Signal(int signal_number);
  void Escalate();

  const RankProcessesOptions options_;
  std::unique_ptr<RendezvousServer> rendezvous_;
  std::unique_ptr<SignalRelay> relay_;
  // A pair of sockets: other threads write to the first to wake the object's thread.
  Socket wake_in_;
  Socket wake_out_;
  std::vector<pid_t> pids_;
  std::vector<std::string> results_;
  std::promise<absl::Status> launched_;
  std::mutex mutex_;
  std::condition_variable ended_;
  // Guarded by mutex_. The outcome is set once all ranks have ended.
  std::string stop_reason_;
  std::optional<absl::Status> outcome_;
  // The members below belong to the thread.
  std::vector<std::unique_ptr<Rank>> ranks_;
  absl::Status cause_;
  // Whether `cause_` was reported by ranks that failed because of another, not known yet.
  bool is_hearsay_ = false;
  enum class Phase { kRunning, kLeaving, kTerminated, kKilled } phase_ = Phase::kRunning;
  absl::Duration next_;
  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_RANKS_RANK_PROCESSES_H_
