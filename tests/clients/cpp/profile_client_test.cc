#include "clients/cpp/profile_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/server/rpc/rpc_harness.h"
#include "tests/server/rpc/small_world.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

TEST(ProfileClient, AnUploadIsTriedAgainWhenTheServerIsBack) {
  RpcHarness harness;
  harness.store().SetBroken(true);
  std::thread repair([&] {
    while (harness.records().empty()) std::this_thread::yield();
    harness.store().SetBroken(false);
  });
  EXPECT_OK(harness.UploadSmallProfile());
  repair.join();
  v1::ListProfilesRequest list;
  list.set_parent(kCluster);
  ASSERT_OK_AND_ASSIGN(const v1::ListProfilesResponse listed, harness.profiles().List(list));
  EXPECT_EQ(listed.profiles_size(), 1);
}

TEST(UploadMessages, CarryTheWholeProfileInPieces) {
  v1::Profile profile = SmallProfile();
  profile.set_communicator_memory_bytes(7);
  while (profile.collective_timings_size() < 100'000) {
    *profile.add_collective_timings() = profile.collective_timings(0);
  }
  const std::vector<v1::UploadProfileRequest> messages = UploadMessages(kNode, "id", profile);
  ASSERT_GE(messages.size(), 3u);
  EXPECT_TRUE(messages[0].has_header());
  EXPECT_EQ(messages[0].header().parent(), kNode);
  EXPECT_EQ(messages[0].header().communicator_memory_bytes(), 7);
  int timings = 0;
  for (size_t i = 1; i < messages.size(); ++i) {
    EXPECT_LT(messages[i].ByteSizeLong(), size_t{2} << 20);
    timings += messages[i].measurements().collective_timings_size();
  }
  EXPECT_EQ(timings, 100'000);
}

TEST(UploadMessages, LeaveOutWhatTheServerFillsIn) {
  v1::Profile profile = SmallProfile();
  const std::vector<v1::UploadProfileRequest> messages = UploadMessages(kNode, "id", profile);
  EXPECT_EQ(messages[0].header().request_id(), "id");
  profile.set_name("clusters/lab/nodes/node-0/profiles/1");
  profile.set_digest("0000");
  const std::vector<v1::UploadProfileRequest> same = UploadMessages(kNode, "id", profile);
  ASSERT_EQ(same.size(), messages.size());
  for (size_t i = 0; i < same.size(); ++i) {
    EXPECT_EQ(same[i].SerializeAsString(), messages[i].SerializeAsString());
  }
}

}  // namespace
}  // namespace parplan
