// The rank processes of a probe, as the agent sees them.

#ifndef PARPLAN_PROFILER_AGENT_MEASURE_PROBE_JOB_H_
#define PARPLAN_PROFILER_AGENT_MEASURE_PROBE_JOB_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "executor/device/ranks/rank_processes.h"
#include "parplan/agent/v1/probe_plan.pb.h"
#include "parplan/v1/profile.pb.h"

namespace parplan {

struct ProbeJobOptions {
  // Path of parplan-agent-probe; empty for the one in the folder of this program.
  std::string program;
  // Whether to bind each rank to a core; used only by the back end `cpu`.
  bool pins = true;
  // Value of RankProcessesOptions::heeds_signals.
  bool heeds_signals = false;
  absl::Duration time_limit = absl::InfiniteDuration();
  std::function<void(int rank, absl::string_view line)> on_line;
};

// A running probe. No rank outlives this object.
class ProbeJob {
 public:
  // Starts the ranks. NOT_FOUND if the program does not exist; otherwise the errors of
  // RankProcesses::Start.
  static absl::StatusOr<std::unique_ptr<ProbeJob>> Start(const agent::v1::ProbePlan& plan,
                                                         const ProbeJobOptions& options);
  ~ProbeJob();

  // Waits for the ranks and returns what they measured; an empty profile if rank 0 is on another
  // node. Returns the errors of RankProcesses::Wait; DATA_LOSS if rank 0 returned no profile.
  absl::StatusOr<v1::Profile> Wait();
  // Ends the ranks; `Wait` then returns CANCELLED with `why`. Safe to call from any thread.
  void Stop(const std::string& why) { ranks_->Stop(why); }
  const std::vector<pid_t>& pids() const { return ranks_->pids(); }

 private:
  ProbeJob(std::string plan_path, bool has_rank_0)
      : plan_path_(std::move(plan_path)), has_rank_0_(has_rank_0) {}

  const std::string plan_path_;
  const bool has_rank_0_;
  std::unique_ptr<RankProcesses> ranks_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_MEASURE_PROBE_JOB_H_
