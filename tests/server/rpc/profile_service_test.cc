#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "base/error.h"
#include "clients/cpp/status_from_grpc.h"
#include "parplan/v1/profile_service.grpc.pb.h"
#include "tests/server/rpc/reason_matcher.h"
#include "tests/server/rpc/rpc_harness.h"
#include "tests/server/rpc/small_world.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using absl::StatusCode;

// How many profiles the server shows.
int ProfileCount(RpcHarness& harness) {
  v1::ListProfilesRequest list;
  list.set_parent(kCluster);
  const absl::StatusOr<v1::ListProfilesResponse> listed = harness.profiles().List(list);
  EXPECT_OK(listed);
  return listed.ok() ? listed->profiles_size() : -1;
}

// Sends `messages` and half-closes.
absl::Status Send(RpcHarness& harness, const std::vector<v1::UploadProfileRequest>& messages) {
  const auto stub = v1::ProfileService::NewStub(harness.channel());
  grpc::ClientContext context;
  v1::Profile stored;
  const auto writer = stub->UploadProfile(&context, &stored);
  for (const v1::UploadProfileRequest& message : messages) {
    if (!writer->Write(message)) break;
  }
  writer->WritesDone();
  return FromGrpcStatus(writer->Finish());
}

TEST(ProfileService, AnUploadIsStoredListedAndDeleted) {
  RpcHarness harness;
  ASSERT_OK_AND_ASSIGN(const v1::Profile stored, harness.UploadSmallProfile());
  EXPECT_FALSE(stored.digest().empty());
  v1::GetProfileRequest get;
  get.set_name(stored.name());
  ASSERT_OK_AND_ASSIGN(const v1::Profile profile, harness.profiles().Get(get));
  EXPECT_EQ(profile.layer_timings_size(), SmallProfile().layer_timings_size());
  EXPECT_EQ(profile.collective_timings_size(), SmallProfile().collective_timings_size());
  EXPECT_EQ(profile.context_memory_bytes(), SmallProfile().context_memory_bytes());
  EXPECT_EQ(ProfileCount(harness), 1);

  v1::DeleteProfileRequest remove;
  remove.set_name(stored.name());
  EXPECT_OK(harness.profiles().Delete(remove));
  const auto not_found = IsRefused(StatusCode::kNotFound, Reason::kResourceNotFound);
  EXPECT_THAT(harness.profiles().Delete(remove), not_found);
  EXPECT_THAT(harness.profiles().Get(get), not_found);
  EXPECT_EQ(ProfileCount(harness), 0);
}

TEST(ProfileService, AnUploadMayBeRepeatedUnderItsRequestId) {
  RpcHarness harness;
  ASSERT_OK_AND_ASSIGN(const v1::Profile first,
                       harness.profiles().Upload(kNode, SmallProfile(), "once"));
  ASSERT_OK_AND_ASSIGN(const v1::Profile second,
                       harness.profiles().Upload(kNode, SmallProfile(), "once"));
  EXPECT_EQ(first.name(), second.name());
  v1::Profile other = SmallProfile();
  other.set_overlap_slowdown(1.3);
  EXPECT_THAT(harness.profiles().Upload(kNode, other, "once"),
              IsRefused(StatusCode::kInvalidArgument, Reason::kRequestIdReused));
  EXPECT_EQ(ProfileCount(harness), 1);
}

TEST(ProfileService, RefusesAProfileThatBreaksARule) {
  RpcHarness harness;
  v1::Profile profile = SmallProfile();
  profile.mutable_layer_timings(0)->mutable_forward_duration()->set_nanos(-1);
  EXPECT_THAT(harness.profiles().Upload(kNode, profile),
              IsRefused(StatusCode::kInvalidArgument, Reason::kProfileInvalid));
  EXPECT_THAT(harness.profiles().Upload("clusters/lab", SmallProfile()),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(Send(harness, {}), StatusIs(StatusCode::kInvalidArgument));
  std::vector<v1::UploadProfileRequest> headless = UploadMessages(kNode, "id", SmallProfile());
  headless.erase(headless.begin());
  EXPECT_THAT(Send(harness, headless),
              IsRefused(StatusCode::kInvalidArgument, Reason::kProfileInvalid));
  v1::GetProfileRequest get;
  get.set_name("profiles/1");
  EXPECT_THAT(harness.profiles().Get(get),
              IsRefused(StatusCode::kInvalidArgument, Reason::kSpecInvalid));
  EXPECT_EQ(ProfileCount(harness), 0);
}

TEST(ProfileService, AnUploadBeyondTheLimitIsRefusedWhole) {
  Limits limits = RpcHarness::TestLimits();
  limits.max_upload_bytes = 300;
  RpcHarness harness(limits);
  EXPECT_THAT(harness.UploadSmallProfile(),
              IsRefused(StatusCode::kResourceExhausted, Reason::kUploadTooLarge));
  EXPECT_EQ(ProfileCount(harness), 0);
}

TEST(ProfileService, AMessageBeyondTheLimitOfTheTransportStoresNothing) {
  Limits limits = RpcHarness::TestLimits();
  limits.max_request_bytes = 100'000;
  RpcHarness harness(limits);
  std::vector<v1::UploadProfileRequest> messages = UploadMessages(kNode, "id", SmallProfile());
  v1::UploadProfileRequest large;
  for (int i = 0; i < 10'000; ++i) {
    large.mutable_measurements()->add_layer_timings()->set_layer_definition_id("decoder");
  }
  messages.push_back(large);
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(Send(harness, messages), StatusIs(StatusCode::kResourceExhausted));
  }
  EXPECT_EQ(ProfileCount(harness), 0);
}

// A broken connection must not look like a complete profile: every message was sent, only the
// half-close is missing.
TEST(ProfileService, AStreamThatIsNotClosedWellStoresNothing) {
  RpcHarness harness;
  const std::vector<v1::UploadProfileRequest> messages =
      UploadMessages(kNode, "never", SmallProfile());
  for (int i = 0; i < 200; ++i) {
    const auto stub = v1::ProfileService::NewStub(harness.channel());
    grpc::ClientContext context;
    v1::Profile stored;
    const auto writer = stub->UploadProfile(&context, &stored);
    for (const v1::UploadProfileRequest& message : messages) {
      ASSERT_TRUE(writer->Write(message));
    }
    context.TryCancel();
    EXPECT_THAT(FromGrpcStatus(writer->Finish()), StatusIs(StatusCode::kCancelled));
  }
  // After the last of them has ended on the server.
  harness.server().Drain(absl::ZeroDuration(), absl::Seconds(10));
  const absl::StatusOr<Page<ProfileRecord>> page =
      harness.store().ListProfiles("lab", std::nullopt, PageRequest());
  ASSERT_OK(page);
  EXPECT_TRUE(page->records.empty());
  for (const CallRecord& record : harness.records()) {
    EXPECT_EQ(record.code, StatusCode::kCancelled);
  }
}

TEST(ProfileService, AStoreThatFailsIsUnavailable) {
  RpcHarness harness;
  harness.store().SetBroken(true);
  EXPECT_THAT(Send(harness, UploadMessages(kNode, "id", SmallProfile())),
              IsRefused(StatusCode::kUnavailable, Reason::kStoreUnavailable));
}

}  // namespace
}  // namespace parplan
