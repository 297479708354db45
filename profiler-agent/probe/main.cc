// The program parplan-agent-probe: one rank of a probe. The agent starts one process for each
// device, passes the file of a plan to all, and reads the profile that rank 0 returns.

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/service/shell/command_line.h"
#include "base/service/shell/completion/completion.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"
#include "executor/device/backend/load_backend.h"
#include "executor/device/comm/job_fabric.h"
#include "executor/device/ranks/rank_environment.h"
#include "executor/device/ranks/rank_processes.h"
#include "profiler-agent/probe/probe_rank.h"
#include "proto/wire/version.h"

namespace parplan {
namespace {

absl::StatusOr<agent::v1::ProbePlan> ReadPlan(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  agent::v1::ProbePlan plan;
  if (!file || !plan.ParseFromString(bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not a serialized ProbePlan; parplan-agent writes this file"));
  }
  return plan;
}

JobFabricOptions FabricOptionsOf(const agent::v1::ProbePlan& plan, const RankEnvironment& self) {
  JobFabricOptions options = self.ToFabricOptions();
  if (!plan.has_meeting()) return options;
  const agent::v1::ProbeMeeting& meeting = plan.meeting();
  options.rendezvous = meeting.rendezvous();
  options.token = meeting.token();
  options.rank = meeting.first_rank() + self.local_rank;
  options.world_size = plan.rank_count();
  options.host = meeting.host();
  // Measures the link, not the encryption, which programs that train with NCCL do not have. The
  // bytes are those of no job.
  options.tls_links = TlsLinks::kNone;
  return options;
}

absl::Status Run(const std::string& plan_path) {
  PARPLAN_ASSIGN_OR_RETURN(const agent::v1::ProbePlan plan, ReadPlan(plan_path));
  // A probe has no encrypted links, so no setting of the agent's environment for them ends it.
  PARPLAN_ASSIGN_OR_RETURN(const std::optional<RankEnvironment> self,
                           RankEnvironment::FromVariables([](const char* name) -> const char* {
                             return std::strcmp(name, "PARPLAN_TLS_LINKS") == 0 ? nullptr
                                                                                : std::getenv(name);
                           }));
  if (!self.has_value()) {
    return absl::FailedPreconditionError(
        "parplan-agent-probe runs one rank of a probe; start parplan-agent instead");
  }
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceBackend> backend,
                           LoadBackend(plan.backend()));
  // A rank pinned to a core sees that core only, as device 0.
  const int index = self->local_rank % backend->device_count();
  PARPLAN_ASSIGN_OR_RETURN(const DeviceFacts description, backend->Describe(index));
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, backend->Open(index));
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<JobFabric> fabric,
                           JobFabric::Join(FabricOptionsOf(plan, *self)));
  const absl::StatusOr<v1::Profile> profile = RunProbe(plan, *fabric, description, *device);
  if (!profile.ok()) {
    if (!absl::IsUnavailable(profile.status()) && !absl::IsAborted(profile.status())) {
      fabric->Abort(std::string(profile.status().message()));
    }
    return profile.status();
  }
  if (fabric->rank() != 0) return absl::OkStatus();
  const int error = WriteAll(self->result_descriptor, profile->SerializeAsString());
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(DescribeErrno(error, "cannot write the profile to the agent"));
}

constexpr char kFooter[] = R"(
Exit codes
  0   success; rank 0 has returned the profile to the agent
  1   failed to measure; the reason is on standard error
  2   wrong arguments
  75  ended because another rank failed)";

}  // namespace
}  // namespace parplan

int main(int argc, char** argv) {
  parplan::shell::CommandLine line(
      "Measures one device as one rank of a probe. Started by parplan-agent.",
      "parplan-agent-probe");
  line.SetVersion(absl::StrCat("parplan-agent-probe ", parplan::kVersion));
  parplan::shell::Command program = line.root();
  parplan::shell::AddCompletionOption(program);
  program.Footer(parplan::kFooter);
  std::string plan_path;
  program.AddOption("plan", plan_path, "Probe to run, written by parplan-agent")
      .Required()
      .TypeName("FILE");
  if (const std::optional<int> exit_code = line.Parse(argc, argv)) return *exit_code;
  const absl::Status status = parplan::Run(plan_path);
  if (status.ok()) return 0;
  std::cerr << std::string(status.message()) << std::endl;
  return absl::IsUnavailable(status) || absl::IsAborted(status) ? parplan::kExitAfterAnother : 1;
}
