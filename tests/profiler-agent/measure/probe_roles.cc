#include "tests/profiler-agent/measure/probe_roles.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "executor/device/ranks/rank_environment.h"
#include "parplan/agent/v1/probe_plan.pb.h"
#include "parplan/v1/profile.pb.h"

namespace parplan {

int PlayProbeRole(const char* plan_path) {
  const std::string role = std::getenv(kRoleVariable);
  const auto self = RankEnvironment::FromEnvironment();
  if (!self.ok() || !self->has_value()) return 2;
  agent::v1::ProbePlan plan;
  std::ifstream file(plan_path, std::ios::binary);
  if (!plan.ParseFromIstream(&file)) return 3;
  if (role == "killed" && (*self)->rank == 1) ::raise(SIGKILL);
  if (role == "killed" || role == "pause") {
    while (true) ::pause();
  }
  if (role == "seen") {
    // Reads the two GPUs three times.
    constexpr uintmax_t kNoteCount = 6;
    std::error_code error;
    uintmax_t count = 0;
    while (count < kNoteCount) {
      ::usleep(10'000);
      count = std::filesystem::file_size(std::getenv("PARPLAN_FAKE_NVML_NOTES"), error);
      if (error) count = 0;
    }
  }
  if ((*self)->rank != 0 || role == "silent") return 0;
  v1::Profile profile;
  profile.set_device_kind("CPU test");
  profile.set_devices_per_node(plan.rank_count());
  if (role == "wrong") profile.set_overlap_slowdown(0.5);
  const std::string bytes = profile.SerializeAsString();
  return ::write((*self)->result_descriptor, bytes.data(), bytes.size()) ==
                 static_cast<ssize_t>(bytes.size())
             ? 0
             : 4;
}

}  // namespace parplan

// A rank is this program too.
int main(int argc, char** argv) {
  if (std::getenv("PARPLAN_RANK") != nullptr) return parplan::PlayProbeRole(argv[1]);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
