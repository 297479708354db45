// A measurement by `parplan-torch profile` (docs/python.md), which starts ranks of its own.
// `MeasureNode` runs one for each model of a plan of PyTorch.

#ifndef PARPLAN_PROFILER_AGENT_MEASURE_TORCH_JOB_H_
#define PARPLAN_PROFILER_AGENT_MEASURE_TORCH_JOB_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "executor/device/ranks/rank_processes.h"
#include "parplan/agent/v1/probe_plan.pb.h"
#include "parplan/v1/profile.pb.h"
#include "profiler-agent/measure/node_job.h"

namespace parplan {

// Returns the release of PyTorch that `program` uses, such as `2.15.0+cpu`. `program` is a path, or
// a name that a folder of PATH has. NOT_FOUND or PERMISSION_DENIED if it cannot be run, with what
// to install; ABORTED with its last words if it fails, for example without PyTorch;
// DEADLINE_EXCEEDED after a minute; DATA_LOSS if it names no release; UNAVAILABLE,
// RESOURCE_EXHAUSTED or INTERNAL if no process can be made (RankProcesses). Blocks until then.
absl::StatusOr<std::string> TorchVersion(const std::string& program);

// How the program runs, and who reads what it prints.
struct TorchJobOptions {
  // `Profile.device_kind`.
  std::string device_kind;
  // Whether collectives of the plan's sizes are measured too.
  bool measures_collectives = true;
  // Whether SIGINT and SIGTERM to this process end the job; for one job at a time.
  bool heeds_signals = false;
  // Time after which the job is ended.
  absl::Duration time_limit = absl::InfiniteDuration();
  // Called with each line of the job's standard error, on a thread of the job, with rank 0; empty:
  // the line goes to this process's standard error.
  std::function<void(int rank, absl::string_view line)> on_line;
};

// A running measurement of one model.
class TorchJob : public NodeJob {
 public:
  // Starts the layers of `plan` that are of its model number `model`, from 0, with as many ranks as
  // the plan has on a node. REQUIRES, unchecked: the plan has `torch`, and both have that model.
  // Errors as of TorchVersion for a program that cannot be run; INVALID_ARGUMENT (SPEC_INVALID)
  // naming `layer_time_limit` if that is no duration; UNAVAILABLE if the model cannot be written to
  // the temporary folder; UNAVAILABLE, RESOURCE_EXHAUSTED or INTERNAL if no process can be made.
  static absl::StatusOr<std::unique_ptr<TorchJob>> Start(const agent::v1::ProbePlan& plan,
                                                         int model, const TorchJobOptions& options);
  ~TorchJob() override;

  // See NodeJob; ABORTED has the last line that the program wrote to its standard error.
  absl::StatusOr<v1::Profile> Wait() override;
  void Stop(const std::string& why) override { process_->Stop(why); }
  // All processes of the job, the ranks among them.
  std::vector<pid_t> pids() const override;

 private:
  TorchJob(std::string program, std::string spec_path)
      : program_(std::move(program)), spec_path_(std::move(spec_path)) {}

  const std::string program_;
  const std::string spec_path_;
  // parplan-torch, which is one process here.
  std::unique_ptr<RankProcesses> process_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_MEASURE_TORCH_JOB_H_
