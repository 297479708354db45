#include "profiler-agent/measure/probe_job.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/status_macros.h"
#include "profiler-agent/measure/temporary_file.h"

namespace parplan {
namespace {

constexpr char kProgram[] = "parplan-agent-probe";

std::string BesideThisProgram() {
  std::error_code ignored;
  return (std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / kProgram)
      .string();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProbeJob>> ProbeJob::Start(const agent::v1::ProbePlan& plan,
                                                          const ProbeJobOptions& options) {
  const std::string program = options.program.empty() ? BesideThisProgram() : options.program;
  PARPLAN_ASSIGN_OR_RETURN(std::string path,
                           WriteTemporaryFile("parplan-probe", plan.SerializeAsString()));
  std::unique_ptr<ProbeJob> job(new ProbeJob(std::move(path), plan.meeting().first_rank() == 0));
  RankProcessesOptions ranks;
  ranks.rank_count = plan.devices_per_node() > 0 ? plan.devices_per_node() : plan.rank_count();
  ranks.argv = {program, job->plan_path_};
  ranks.pins = options.pins && plan.backend() == "cpu";
  ranks.heeds_signals = options.heeds_signals;
  ranks.time_limit = options.time_limit;
  ranks.on_line = options.on_line;
  PARPLAN_ASSIGN_OR_RETURN(job->ranks_, RankProcesses::Start(std::move(ranks)));
  return job;
}

ProbeJob::~ProbeJob() {
  ranks_.reset();
  ::unlink(plan_path_.c_str());
}

absl::StatusOr<v1::Profile> ProbeJob::Wait() {
  PARPLAN_RETURN_IF_ERROR(ranks_->Wait());
  v1::Profile profile;
  if (!has_rank_0_) return profile;
  if (!profile.ParseFromString(ranks_->results().front()) || profile.device_kind().empty()) {
    return absl::DataLossError("rank 0 of the probe returned no profile");
  }
  return profile;
}

}  // namespace parplan
