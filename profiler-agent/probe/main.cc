// The program parplan-agent-probe: one rank of a probe. The agent starts one process for each
// device, passes the file of a plan to all, and reads the profile that rank 0 returns.

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "executor/device/backend/load_backend.h"
#include "executor/device/comm/job_fabric.h"
#include "executor/device/ranks/rank_environment.h"
#include "executor/device/ranks/rank_processes.h"
#include "profiler-agent/probe/probe_rank.h"
#include "proto/wire/version.h"

namespace parplan {
namespace {

absl::StatusOr<agent::v1::ProbePlan> ReadPlan(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  agent::v1::ProbePlan plan;
  if (!file || !plan.ParseFromString(bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not a serialized ProbePlan; parplan-agent writes this file"));
  }
  return plan;
}

absl::Status WriteAll(int descriptor, absl::string_view data) {
  while (!data.empty()) {
    const ssize_t written = ::write(descriptor, data.data(), data.size());
    if (written < 0 && errno != EINTR) {
      return absl::UnavailableError(
          absl::StrCat("cannot write the profile to the agent: ", std::strerror(errno)));
    }
    if (written > 0) data.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
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
  return options;
}

absl::Status Run(const char* plan_path) {
  PARPLAN_ASSIGN_OR_RETURN(const agent::v1::ProbePlan plan, ReadPlan(plan_path));
  PARPLAN_ASSIGN_OR_RETURN(const std::optional<RankEnvironment> self,
                           RankEnvironment::FromEnvironment());
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
  return WriteAll(self->result_descriptor, profile->SerializeAsString());
}

constexpr char kHelp[] = R"(Measures one device as one rank of a probe. Started by parplan-agent.
Usage: parplan-agent-probe PLAN

Options:
  -h,--help                   Print this help message and exit
  --version                   Display program version information and exit

Exit codes
  0   success; rank 0 has returned the profile to the agent
  1   failed to measure; the reason is on standard error
  2   wrong arguments
  75  ended because another rank failed
)";

}  // namespace
}  // namespace parplan

int main(int argc, char** argv) {
  const std::string argument = argc == 2 ? argv[1] : "";
  if (argument == "--version") {
    std::cout << "parplan-agent-probe " << parplan::kVersion << std::endl;
    return 0;
  }
  if (argument == "--help" || argument == "-h") {
    std::cout << parplan::kHelp << std::flush;
    return 0;
  }
  if (argc != 2) {
    std::cerr << "usage: parplan-agent-probe PLAN (started by parplan-agent)\n";
    return 2;
  }
  const absl::Status status = parplan::Run(argv[1]);
  if (status.ok()) return 0;
  std::cerr << std::string(status.message()) << std::endl;
  return absl::IsUnavailable(status) || absl::IsAborted(status) ? parplan::kExitAfterAnother : 1;
}
