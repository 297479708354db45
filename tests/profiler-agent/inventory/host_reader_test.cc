#include "profiler-agent/inventory/host_reader.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ReadHost, ReadsAMachineOfTwoSockets) {
  HostReaderOptions options;
  options.topology_file = absl::StrCat(PARPLAN_MACHINES, "/two_sockets.xml");
  ASSERT_OK_AND_ASSIGN(const HostFacts host, ReadHost(options));
  // Spaces around it, which some processors have, are not of the name.
  EXPECT_EQ(host.cpu_model, "Intel(R) Xeon(R)  Platinum 8480C");
  EXPECT_EQ(host.socket_count, 2);
  EXPECT_EQ(host.core_count, 8);
  EXPECT_EQ(host.thread_count, 16);
  EXPECT_EQ(host.memory_bytes, int64_t{768} << 30);
  const NumaNode half{int64_t{384} << 30, 4};
  EXPECT_THAT(host.numa_nodes, ElementsAre(half, half));
}

TEST(ReadHost, ReadsThisMachine) {
  ASSERT_OK_AND_ASSIGN(const HostFacts host, ReadHost());
  EXPECT_NE(host.cpu_model, "");
  EXPECT_GE(host.core_count, 1);
  EXPECT_GE(host.thread_count, host.core_count);
  EXPECT_GT(host.memory_bytes, int64_t{1} << 20);
  EXPECT_NE(host.kernel, "");
}

TEST(ReadHost, RefusesAFileThatIsNoMachine) {
  HostReaderOptions options;
  options.topology_file = absl::StrCat(PARPLAN_MACHINES, "/fake_nvml.cc");
  EXPECT_THAT(ReadHost(options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("topology_file")));
}

}  // namespace
}  // namespace parplan
