#include "server/core/profile_keeper.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/wire/duration_wire.h"
#include "tests/server/core/core_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

class ProfileKeeperTest : public CoreTest {
 protected:
  absl::StatusOr<SnapshotHandle> Snapshot(int devices_per_node = 8,
                                          const std::string& runtime = "parplan") {
    return core().profiles().Snapshot("synthetic", "synthetic-device", devices_per_node, runtime);
  }

  size_t ListedCount() {
    v1::ListProfilesRequest request;
    request.set_parent("clusters/synthetic");
    return core().profiles().List(request)->profiles_size();
  }
};

v1::UploadProfileRequest Header() {
  v1::UploadProfileRequest request;
  request.mutable_header()->set_parent("clusters/synthetic/nodes/node-0");
  request.mutable_header()->set_request_id("id");
  return request;
}

TEST_F(ProfileKeeperTest, AnUploadIsWholeAndComesBackAsItWasSent) {
  Start();
  const v1::Profile sent = SyntheticProfile({});
  ASSERT_OK_AND_ASSIGN(const v1::Profile stored, Upload(sent, "one"));
  v1::GetProfileRequest request;
  request.set_name(stored.name());
  ASSERT_OK_AND_ASSIGN(v1::Profile read, core().profiles().Get(request));
  EXPECT_EQ(read.SerializeAsString(), stored.SerializeAsString());
  read.clear_name();
  read.clear_create_time();
  read.clear_digest();
  EXPECT_EQ(read.SerializeAsString(), sent.SerializeAsString());
}

TEST_F(ProfileKeeperTest, NothingIsVisibleBeforeTheEndNorAfterAnUploadThatIsGivenUp) {
  Start();
  const v1::Profile profile = SyntheticProfile({});
  {
    const std::unique_ptr<UploadSession> upload = core().profiles().StartUpload();
    ASSERT_OK(upload->Add(Header()));
    v1::UploadProfileRequest piece;
    *piece.mutable_measurements()->mutable_layer_definitions() = profile.layer_definitions();
    ASSERT_OK(upload->Add(piece));
    EXPECT_EQ(ListedCount(), 0u);
  }
  EXPECT_EQ(ListedCount(), 0u);
  EXPECT_THAT(observer.uploads(), SizeIs(1));
  EXPECT_FALSE(observer.uploads()[0].first);
}

TEST_F(ProfileKeeperTest, ABrokenProfileIsRefusedWholeWithFieldAndRule) {
  Start();
  v1::Profile profile = SyntheticProfile({});
  profile.mutable_layer_timings(3)->mutable_forward_duration()->set_seconds(-1);
  const absl::Status refused = Upload(profile, "one").status();
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(ReasonOf(refused), Reason::kProfileInvalid);
  EXPECT_THAT(FactOf(refused, "field"), HasSubstr("layer_timings[3]"));
  EXPECT_EQ(ListedCount(), 0u);
  EXPECT_EQ(observer.uploads()[0].second, Reason::kProfileInvalid);
}

// A later release may have rules that one of before does not know, and the other way round. It is
// not the question of whoever asks for a plan that is wrong.
TEST_F(ProfileKeeperTest, AStoredProfileThatBreaksARuleIsNoMistakeOfTheCaller) {
  Start();
  v1::Profile profile = SyntheticProfile({});
  profile.mutable_layer_timings(3)->mutable_forward_duration()->set_seconds(-1);
  ProfileRecord record;
  record.name = "clusters/synthetic/nodes/node-9/profiles/later";
  record.cluster = "synthetic";
  record.node = "node-9";
  record.device_kind = profile.device_kind();
  record.bytes = profile.SerializeAsString();
  ASSERT_OK(store().PutProfile(record));
  const absl::Status status = Snapshot().status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss, HasSubstr(record.name)));
  EXPECT_EQ(ReasonOf(status), Reason::kStoreUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("layer_timings[3]"));
  ASSERT_OK(store().DeleteProfile(record.name));
  EXPECT_THAT(Snapshot().status(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(ProfileKeeperTest, AnUploadBeyondTheLimitIsRefusedAtOnce) {
  limits.max_upload_bytes = 1000;
  Start();
  const absl::Status refused = Upload(SyntheticProfile({}), "one").status();
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(ReasonOf(refused), Reason::kUploadTooLarge);
  EXPECT_EQ(FactOf(refused, "limit"), "1000");
  EXPECT_EQ(ListedCount(), 0u);
}

TEST_F(ProfileKeeperTest, UploadsInProgressShareTheirMemory) {
  limits.max_upload_memory_bytes = 4000;
  Start();
  v1::UploadProfileRequest piece;
  piece.mutable_measurements()->add_layer_definitions()->set_layer_definition_id(
      std::string(1500, 'x'));
  const std::unique_ptr<UploadSession> first = core().profiles().StartUpload();
  ASSERT_OK(first->Add(Header()));
  ASSERT_OK(first->Add(piece));
  {
    const std::unique_ptr<UploadSession> second = core().profiles().StartUpload();
    ASSERT_OK(second->Add(Header()));
    const absl::Status refused = second->Add(piece);
    EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted));
    EXPECT_EQ(ReasonOf(refused), Reason::kQueueFull);
  }
  EXPECT_THAT(first->Finish(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ProfileKeeperTest, MessagesThatAreNoneAreRefused) {
  Start();
  EXPECT_EQ(ReasonOf(core().profiles().StartUpload()->Add(std::string("\xff\xff"))),
            Reason::kProfileInvalid);
  EXPECT_EQ(ReasonOf(core().profiles().StartUpload()->Add(std::string())), Reason::kProfileInvalid);
  EXPECT_THAT(core().profiles().StartUpload()->Add(std::string(100'000, '\n')),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("header")));
  const std::unique_ptr<UploadSession> upload = core().profiles().StartUpload();
  ASSERT_OK(upload->Add(Header()));
  // A field of measurements whose end is missing.
  ASSERT_OK(upload->Add(std::string("\x12\x05")));
  EXPECT_EQ(ReasonOf(upload->Finish().status()), Reason::kProfileInvalid);
}

TEST_F(ProfileKeeperTest, MeasurementsThatGrowWhenDecodedAreRefused) {
  limits.max_upload_bytes = 20'000;
  Start();
  v1::UploadProfileRequest piece;
  for (int i = 0; i < 9000; ++i) piece.mutable_measurements()->add_layer_timings();
  const std::unique_ptr<UploadSession> upload = core().profiles().StartUpload();
  ASSERT_OK(upload->Add(Header()));
  ASSERT_OK(upload->Add(piece));
  const absl::Status refused = upload->Finish().status();
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("of memory")));
  EXPECT_EQ(ReasonOf(refused), Reason::kUploadTooLarge);
}

TEST_F(ProfileKeeperTest, TheHeaderComesFirstAndOnce) {
  Start();
  v1::UploadProfileRequest piece;
  piece.mutable_measurements();
  EXPECT_THAT(core().profiles().StartUpload()->Add(piece),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("first message")));
  const std::unique_ptr<UploadSession> upload = core().profiles().StartUpload();
  ASSERT_OK(upload->Add(Header()));
  EXPECT_THAT(upload->Add(Header()), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(upload->Finish(), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(core().profiles().StartUpload()->Finish(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ProfileKeeperTest, ARetryGivesTheFirstProfileAndOtherContentIsRefused) {
  Start();
  v1::Profile profile = SyntheticProfile({});
  ASSERT_OK_AND_ASSIGN(const v1::Profile first, Upload(profile, "one"));
  clock.Advance(absl::Seconds(5));
  ASSERT_OK_AND_ASSIGN(const v1::Profile again, Upload(profile, "one"));
  EXPECT_EQ(again.SerializeAsString(), first.SerializeAsString());
  profile.set_overlap_slowdown(1.3);
  EXPECT_EQ(ReasonOf(Upload(profile, "one").status()), Reason::kRequestIdReused);
  EXPECT_EQ(ListedCount(), 1u);
}

TEST_F(ProfileKeeperTest, AStoreThatFailsLeavesNothingHalfVisible) {
  Start();
  store().SetBroken(true);
  EXPECT_THAT(Upload(SyntheticProfile({}), "one"), StatusIs(absl::StatusCode::kUnavailable));
  store().SetBroken(false);
  EXPECT_EQ(ListedCount(), 0u);
  ASSERT_OK(Upload(SyntheticProfile({}), "one").status());
  EXPECT_EQ(ListedCount(), 1u);
}

TEST_F(ProfileKeeperTest, TheProfilesOfTwoNodesMakeOneSnapshot) {
  Start();
  const v1::Profile whole = SyntheticProfile({});
  v1::Profile layers = whole;
  layers.clear_collective_timings();
  v1::Profile collectives = whole;
  collectives.clear_layer_definitions();
  collectives.clear_layer_timings();
  collectives.clear_layer_memories();
  ASSERT_OK(Upload(layers, "one", "node-0").status());
  ASSERT_OK(Upload(collectives, "two", "node-1").status());
  ASSERT_OK_AND_ASSIGN(const SnapshotHandle halves, Snapshot());

  Start();
  ASSERT_OK(Upload(whole, "one").status());
  ASSERT_OK_AND_ASSIGN(const SnapshotHandle one, Snapshot());
  EXPECT_EQ(halves.snapshot->digest(), one.snapshot->digest());
}

TEST_F(ProfileKeeperTest, ASnapshotIsTheSamePointerUntilAProfileComesOrGoes) {
  Start();
  ASSERT_OK_AND_ASSIGN(const v1::Profile first, Upload(SyntheticProfile({}), "one"));
  ASSERT_OK_AND_ASSIGN(const SnapshotHandle before, Snapshot());
  EXPECT_EQ(Snapshot()->snapshot, before.snapshot);

  v1::Profile newer = SyntheticProfile({});
  newer.set_overlap_slowdown(1.5);
  ASSERT_OK_AND_ASSIGN(const v1::Profile second, Upload(newer, "two"));
  ASSERT_OK_AND_ASSIGN(const SnapshotHandle after, Snapshot());
  EXPECT_EQ(after.snapshot->overlap_slowdown(), 1.5);
  EXPECT_EQ(before.snapshot->overlap_slowdown(), 1.2);

  v1::DeleteProfileRequest request;
  request.set_name(second.name());
  ASSERT_OK(core().profiles().Delete(request));
  EXPECT_EQ(Snapshot()->snapshot->digest(), before.snapshot->digest());
  EXPECT_THAT(core().profiles().Delete(request), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(ProfileKeeperTest, ANodeThatWasNotMeasuredIsMissing) {
  Start();
  ASSERT_OK(Upload(SyntheticProfile({}), "one").status());
  const absl::Status missing =
      core().profiles().Snapshot("synthetic", "another-device", 8, "parplan").status();
  EXPECT_EQ(ReasonOf(missing), Reason::kProfileMissing);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("synthetic-device"));
}

TEST_F(ProfileKeeperTest, EachRuntimeHasItsOwnSnapshot) {
  Start();
  v1::Profile slow = SyntheticProfile({});
  slow.set_runtime_id("torch");
  v1::Profile fast = SyntheticProfile({});
  fast.set_runtime_id("parplan");
  for (v1::LayerTiming& timing : *fast.mutable_layer_timings()) {
    timing.mutable_forward_duration()->set_seconds(60);
    timing.clear_forward_duration_p90();
  }
  ASSERT_OK(Upload(slow, "one").status());
  ASSERT_OK(Upload(fast, "two").status());
  ASSERT_OK_AND_ASSIGN(const SnapshotHandle of_torch, Snapshot(8, "fsdp"));
  ASSERT_OK_AND_ASSIGN(const SnapshotHandle of_parplan, Snapshot(8, "parplan"));
  EXPECT_NE(of_torch.snapshot->digest(), of_parplan.snapshot->digest());
  EXPECT_GE(of_parplan.snapshot->layers()[0].timings[0].forward.value(), 60);
  EXPECT_LT(of_torch.snapshot->layers()[0].timings[0].forward.value(), 60);
  // Both runtimes are measured as `torch`, and the snapshot is kept.
  EXPECT_EQ(Snapshot(8, "deepspeed")->snapshot, of_torch.snapshot);
  // The collectives are NCCL's.
  ASSERT_OK_AND_ASSIGN(const SnapshotHandle of_megatron, Snapshot(8, "megatron-core"));
  EXPECT_TRUE(of_megatron.snapshot->layers().empty());
  EXPECT_EQ(of_megatron.snapshot->collectives().size(), of_torch.snapshot->collectives().size());
}

TEST_F(ProfileKeeperTest, APartOfAMeasuredNodeHasTheCollectivesThatLieWithinIt) {
  Start();
  ASSERT_OK(Upload(SyntheticProfile({}), "one").status());
  ASSERT_OK_AND_ASSIGN(const SnapshotHandle part, Snapshot(4));
  EXPECT_EQ(part.snapshot->devices_per_node(), 4);
  EXPECT_EQ(part.snapshot->layers().size(), Snapshot(8)->snapshot->layers().size());
  for (const CollectivePoint& point : part.snapshot->collectives()) {
    EXPECT_LE(point.participant_count * point.rank_stride, 4);
  }
  EXPECT_FALSE(part.snapshot->collectives().empty());
  EXPECT_NE(part.snapshot->digest(), Snapshot(8)->snapshot->digest());
  EXPECT_EQ(ReasonOf(Snapshot(3).status()), Reason::kProfileMissing);
}

TEST_F(ProfileKeeperTest, ListsWithoutMeasurementsAndByNode) {
  Start();
  ASSERT_OK(Upload(SyntheticProfile({}), "one", "node-0").status());
  ASSERT_OK(Upload(SyntheticProfile({}), "two", "node-1").status());
  v1::ListProfilesRequest request;
  request.set_parent("clusters/synthetic/nodes/node-1");
  ASSERT_OK_AND_ASSIGN(const v1::ListProfilesResponse response, core().profiles().List(request));
  ASSERT_EQ(response.profiles_size(), 1);
  EXPECT_EQ(response.profiles(0).layer_timings_size(), 0);
  EXPECT_EQ(response.profiles(0).provenance().agent(), "core_test");
  request.set_parent("nonsense");
  EXPECT_THAT(core().profiles().List(request), StatusIs(absl::StatusCode::kInvalidArgument));
}

// Or a clock that is ahead would silence the alert for old measurements.
TEST_F(ProfileKeeperTest, NoMeasurementIsYoungerThanItsProfile) {
  Start();
  v1::Profile profile = SyntheticProfile({});
  *profile.mutable_provenance()->mutable_measure_time() =
      TimestampToProto(clock.Now() + 7000 * absl::Hours(24 * 365));
  ASSERT_OK_AND_ASSIGN(const v1::Profile stored, Upload(profile, "one"));
  EXPECT_EQ(stored.provenance().measure_time().seconds(),
            profile.provenance().measure_time().seconds());
  EXPECT_EQ(observer.profiles().back().newest_measurement, clock.Now());
  EXPECT_EQ(Snapshot()->newest_measurement, clock.Now());
  ASSERT_OK(core().Maintain());
  EXPECT_EQ(observer.stored_kinds().back().second[0].newest_measurement, clock.Now());
}

// A profile of one collective, which no other number has.
v1::Profile NumberedProfile(int number) {
  v1::Profile profile = SyntheticProfile({});
  v1::CollectiveTiming timing = profile.collective_timings(0);
  timing.set_message_size_bytes(1000 + number);
  profile.clear_layer_definitions();
  profile.clear_layer_timings();
  profile.clear_layer_memories();
  profile.clear_collective_timings();
  *profile.add_collective_timings() = timing;
  return profile;
}

TEST_F(ProfileKeeperTest, TheNewestProfilesOfANodeStayAndASnapshotMergesThese) {
  limits.profiles_per_node = 2;
  Start();
  for (int i = 0; i < 5; ++i) ASSERT_OK(Upload(NumberedProfile(i), absl::StrCat("id-", i)));
  // Another node, another runtime: profiles of their own.
  ASSERT_OK(Upload(NumberedProfile(5), "id-5", "node-1"));
  v1::Profile of_torch = NumberedProfile(6);
  of_torch.set_runtime_id("torch");
  ASSERT_OK(Upload(of_torch, "id-6"));
  EXPECT_EQ(ListedCount(), 4u);
  ASSERT_OK_AND_ASSIGN(const SnapshotHandle snapshot, Snapshot());
  std::vector<int64_t> sizes;
  for (const CollectivePoint& point : snapshot.snapshot->collectives()) {
    sizes.push_back(point.message_size.count());
  }
  EXPECT_THAT(sizes, testing::UnorderedElementsAre(1003, 1004, 1005, 1006));
}

TEST_F(ProfileKeeperTest, WithoutALimitAllProfilesStay) {
  limits.profiles_per_node = 0;
  Start();
  for (int i = 0; i < 20; ++i) ASSERT_OK(Upload(NumberedProfile(i), absl::StrCat("id-", i)));
  EXPECT_EQ(ListedCount(), 20u);
}

// A plan names what it was made from by digest alone.
TEST_F(ProfileKeeperTest, PlansFromReplacedProfilesStayAsTheyAre) {
  limits.profiles_per_node = 1;
  Start();
  ASSERT_OK_AND_ASSIGN(const v1::Profile first, Upload(SyntheticProfile({}), "first"));
  v1::CreatePlanRequest request = Question();
  request.set_request_id("retry");
  request.set_job_id("j");
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, Ask(request));
  v1::Profile slower = SyntheticProfile({});
  for (v1::LayerTiming& timing : *slower.mutable_layer_timings()) {
    timing.mutable_forward_duration()->set_seconds(1);
  }
  ASSERT_OK(Upload(slower, "second"));
  v1::GetProfileRequest gone;
  gone.set_name(first.name());
  EXPECT_THAT(core().profiles().Get(gone), StatusIs(absl::StatusCode::kNotFound));

  v1::GetPlanRequest get;
  get.set_name(plan->name());
  ASSERT_OK_AND_ASSIGN(const v1::Plan stored, core().plans().GetPlan(get));
  EXPECT_EQ(stored.spec().SerializeAsString(), request.spec().SerializeAsString());
  EXPECT_EQ(stored.signed_plan().SerializeAsString(), plan->signed_plan().SerializeAsString());
  v1::VerifyPlanRequest verify;
  *verify.mutable_signed_plan() = stored.signed_plan();
  EXPECT_EQ(core().plans().VerifyPlan(verify).verdict(), v1::VerifyPlanResponse::VALID);
  ASSERT_OK_AND_ASSIGN(const SharedPlan again, Ask(request));
  EXPECT_EQ(again->name(), plan->name());
  // The same question now is about other measurements.
  request.set_request_id("anew");
  ASSERT_OK_AND_ASSIGN(const SharedPlan anew, Ask(request));
  EXPECT_NE(PayloadOf(*anew).profile_digest(), PayloadOf(*plan).profile_digest());
}

}  // namespace
}  // namespace parplan
