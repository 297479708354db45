// The rank processes of a probe, as the agent sees them. `MeasureNode` runs one.

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
#include "profiler-agent/measure/node_job.h"

namespace parplan {

// How the ranks run, and who reads what they print.
struct ProbeJobOptions {
  // Path of parplan-agent-probe; empty for the one in the folder of this program.
  std::string program;
  // Whether to bind each rank to a core; ignored unless the plan's back end is `cpu`.
  bool pins = true;
  // Whether SIGINT and SIGTERM to this process end the ranks; for one job at a time.
  bool heeds_signals = false;
  // Time after which the ranks are ended; the time budget in the plan is for the ranks to keep.
  absl::Duration time_limit = absl::InfiniteDuration();
  // Called with each line of a rank's standard error, on the job's thread, perhaps before `Start`
  // returns; lines of 16 KiB and more come in pieces. `rank` is counted on this node, from 0.
  // Empty: the line goes to this process's standard error, after that number.
  std::function<void(int rank, absl::string_view line)> on_line;
};

// A running probe. `MeasureNode` starts one and waits for it. No rank outlives this object: the
// destructor ends those that still run, and waits for that.
class ProbeJob : public NodeJob {
 public:
  // Starts the ranks, as many as the plan has on this node. NOT_FOUND, PERMISSION_DENIED or
  // INTERNAL if the program cannot be run, UNAVAILABLE if the plan cannot be written to the
  // temporary folder or the ranks' rendezvous not be served, FAILED_PRECONDITION if a rank cannot
  // be bound to its core, RESOURCE_EXHAUSTED or INTERNAL if no process can be made,
  // INVALID_ARGUMENT for no ranks.
  static absl::StatusOr<std::unique_ptr<ProbeJob>> Start(const agent::v1::ProbePlan& plan,
                                                         const ProbeJobOptions& options);
  ~ProbeJob() override;

  // See NodeJob; the profile is empty if rank 0 of the plan is on another node, and ABORTED names
  // the first rank that failed, by its number on this node, and how.
  absl::StatusOr<v1::Profile> Wait() override;
  void Stop(const std::string& why) override { ranks_->Stop(why); }
  // Processes of this node's ranks, in their order.
  std::vector<pid_t> pids() const override { return ranks_->pids(); }

 private:
  ProbeJob(std::string plan_path, bool has_rank_0)
      : plan_path_(std::move(plan_path)), has_rank_0_(has_rank_0) {}

  const std::string plan_path_;
  const bool has_rank_0_;
  std::unique_ptr<RankProcesses> ranks_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_MEASURE_PROBE_JOB_H_
