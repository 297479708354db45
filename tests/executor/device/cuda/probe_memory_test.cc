// What a probe says of the memory of communicators, over the fakes of CUDA and NCCL, which know it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "executor/device/cuda/cuda_device.h"
#include "profiler-agent/probe/probe_plan.h"
#include "profiler-agent/probe/probe_rank.h"
#include "tests/executor/device/comm/rank_threads.h"
#include "tests/executor/device/cuda/fake_cuda.h"
#include "tests/executor/device/cuda/fake_runtime.h"
#include "tests/support/status_matchers.h"

namespace parplan::cuda {
namespace {

// Asks for collectives, whose groups come and go, and for memory.
agent::v1::ProbePlan PlanOf(int rank_count) {
  ProbeRequest request;
  request.backend = "cuda";
  request.rank_count = rank_count;
  request.smallest_message_bytes = 4096;
  request.largest_message_bytes = 4096;
  request.time_budget = absl::Hours(2);
  agent::v1::ProbePlan plan = *WholeProbe(request);
  plan.set_measures_overlap(false);
  plan.set_measures_copies(false);
  return plan;
}

std::vector<v1::Profile> ProbeOnFakes(const agent::v1::ProbePlan& plan, GroupTransport groups) {
  ResetFakes();
  std::vector<v1::Profile> profiles(plan.rank_count());
  RunRanks(plan.rank_count(), {.spin_count = 50}, [&](JobFabric& fabric) {
    ASSERT_OK_AND_ASSIGN(const auto device, CudaDevice::Open(fabric.rank(), groups));
    ASSERT_OK_AND_ASSIGN(profiles[fabric.rank()],
                         RunProbe(plan, fabric, {.kind = "fake"}, *device));
  });
  EXPECT_EQ(TheFakeNccl().made, TheFakeNccl().ended);
  return profiles;
}

TEST(ProbeMemory, CommunicatorsThatHaveSentAreNoPartOfTheContext) {
  const std::vector<v1::Profile> profiles = ProbeOnFakes(PlanOf(2), GroupTransport::kNative);
  for (const v1::Profile& profile : profiles) {
    ASSERT_TRUE(profile.has_communicator_memory_bytes());
    EXPECT_EQ(profile.communicator_memory_bytes(), fake::kCommunicator + fake::kConnections);
    EXPECT_EQ(profile.context_memory_bytes(), fake::kContext);
    EXPECT_GT(profile.collective_timings_size(), 0);
  }
  // Those of collectives have ended, and two are what the profile says.
  EXPECT_GT(TheFakeNccl().made, 2 * 2);
}

TEST(ProbeMemory, GroupsThroughTheHostHaveNone) {
  for (const v1::Profile& profile : ProbeOnFakes(PlanOf(2), GroupTransport::kStaged)) {
    EXPECT_FALSE(profile.has_communicator_memory_bytes());
    EXPECT_EQ(profile.context_memory_bytes(), fake::kContext);
  }
  EXPECT_EQ(TheFakeNccl().made, 0);
}

TEST(ProbeMemory, ARankAloneHasNone) {
  for (const v1::Profile& profile : ProbeOnFakes(PlanOf(1), GroupTransport::kNative)) {
    EXPECT_FALSE(profile.has_communicator_memory_bytes());
    EXPECT_EQ(profile.context_memory_bytes(), fake::kContext);
  }
}

// What links are probed for, and a profile that has its context already, need no second group.
TEST(ProbeMemory, OneGroupWhereMemoryIsNotAskedFor) {
  agent::v1::ProbePlan plan = PlanOf(2);
  plan.set_measures_context_memory(false);
  plan.clear_collectives();
  for (const v1::Profile& profile : ProbeOnFakes(plan, GroupTransport::kNative)) {
    EXPECT_FALSE(profile.has_communicator_memory_bytes());
    EXPECT_FALSE(profile.has_context_memory_bytes());
  }
  EXPECT_EQ(TheFakeNccl().made, 2);
}

}  // namespace
}  // namespace parplan::cuda
