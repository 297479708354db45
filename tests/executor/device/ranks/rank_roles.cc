#include "tests/executor/device/ranks/rank_roles.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/device/comm/job_fabric.h"
#include "executor/device/ranks/rank_environment.h"
#include "executor/device/ranks/rank_processes.h"

namespace parplan {
namespace {

int Fail(const absl::Status& status) {
  std::cerr << status << std::endl;
  return absl::IsUnavailable(status) || absl::IsAborted(status) ? kExitAfterAnother : 1;
}

int AllowedCores() {
  cpu_set_t cores;
  ::sched_getaffinity(0, sizeof(cores), &cores);
  return CPU_COUNT(&cores);
}

int Join(const std::string& role) {
  const absl::StatusOr<std::optional<RankEnvironment>> found = RankEnvironment::FromEnvironment();
  if (!found.ok()) return Fail(found.status());
  const RankEnvironment& self = **found;
  absl::StatusOr<std::unique_ptr<JobFabric>> fabric = JobFabric::Join(self.ToFabricOptions());
  if (!fabric.ok()) return Fail(fabric.status());
  std::vector<int> everyone(self.world_size);
  std::iota(everyone.begin(), everyone.end(), 0);
  absl::StatusOr<std::unique_ptr<Communicator>> group = (*fabric)->MakeGroup("all", everyone);
  if (!group.ok()) return Fail(group.status());
  if (self.rank == 1 && role == "killed") ::raise(SIGKILL);
  if (self.rank == 1 && role == "failed") {
    std::cerr << "no more apples" << std::endl;
    std::_Exit(3);
  }
  double sum = self.rank;
  const absl::Status status = (*group)->AllReduce(ElementType::kFloat64, &sum, 1);
  if (!status.ok()) return Fail(status);
  const std::string result =
      absl::StrCat(sum, " of ", self.world_size, " on ", AllowedCores(), " cores");
  return ::write(self.result_descriptor, result.data(), result.size()) < 0 ? 1 : 0;
}

int Launch() {
  absl::StatusOr<std::unique_ptr<RankProcesses>> ranks = RankProcesses::Start(
      {.rank_count = 2, .argv = {"/proc/self/exe", "pause"}, .heeds_signals = true});
  if (!ranks.ok()) return Fail(ranks.status());
  std::cerr << absl::StrCat((*ranks)->pids()[0], " ", (*ranks)->pids()[1], "\n") << std::flush;
  const absl::Status status = (*ranks)->Wait();
  std::cerr << status << std::endl;
  return absl::IsCancelled(status) ? 0 : 1;
}

int Pause(bool is_stubborn) {
  if (is_stubborn) ::signal(SIGTERM, SIG_IGN);
  std::cerr << "ready" << std::endl;
  while (true) ::pause();
}

}  // namespace

int PlayRole(const std::string& role) {
  if (role == "pause" || role == "stubborn") return Pause(role == "stubborn");
  if (role == "launcher") return Launch();
  return Join(role);
}

}  // namespace parplan

// A rank is this program too.
int main(int argc, char** argv) {
  if (std::getenv("PARPLAN_RANK") != nullptr) return parplan::PlayRole(argv[1]);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
