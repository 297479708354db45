#include "profiler-agent/measure/probe_job.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"

namespace parplan {
namespace {

constexpr char kProgram[] = "parplan-agent-probe";

std::string BesideThisProgram() {
  std::error_code ignored;
  return (std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / kProgram)
      .string();
}

// Writes the plan to a new temporary file and returns its path.
absl::StatusOr<std::string> WritePlan(const agent::v1::ProbePlan& plan) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) {
    return absl::UnavailableError(absl::StrCat("no folder for temporary files: ", error.message(),
                                               "; set TMPDIR to a folder that is writable"));
  }
  std::string path = (folder / "parplan-probe-XXXXXX").string();
  const int file = ::mkstemp(path.data());
  if (file < 0) {
    return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", ErrnoText(errno),
                                               "; set TMPDIR to a folder that is writable"));
  }
  ::close(file);
  std::ofstream stream(path, std::ios::binary);
  if (!plan.SerializeToOstream(&stream) || !stream.flush()) {
    ::unlink(path.c_str());
    return absl::UnavailableError(absl::StrCat("cannot write ", path, "; check the free space"));
  }
  return path;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProbeJob>> ProbeJob::Start(const agent::v1::ProbePlan& plan,
                                                          const ProbeJobOptions& options) {
  const std::string program = options.program.empty() ? BesideThisProgram() : options.program;
  PARPLAN_ASSIGN_OR_RETURN(std::string path, WritePlan(plan));
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
