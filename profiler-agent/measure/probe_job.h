// The processes of a probe, seen from the agent.

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
  // The file of parplan-agent-probe; empty: beside this program.
  std::string program;
  // Where the back end is `cpu`.
  bool pins = true;
  // As of RankProcessesOptions.
  bool heeds_signals = false;
  absl::Duration time_limit = absl::InfiniteDuration();
  std::function<void(int rank, absl::string_view line)> on_line;
};

// None of the ranks outlives this object.
class ProbeJob {
 public:
  // NOT_FOUND where there is no such program; the errors of RankProcesses::Start.
  static absl::StatusOr<std::unique_ptr<ProbeJob>> Start(const agent::v1::ProbePlan& plan,
                                                         const ProbeJobOptions& options);
  ~ProbeJob();

  // What the ranks measured; empty where rank 0 is on another node. The errors of
  // RankProcesses::Wait, DATA_LOSS where rank 0 gave no profile.
  absl::StatusOr<v1::Profile> Wait();
  // From any thread: ends the ranks, `Wait` returns CANCELLED with `why`.
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
