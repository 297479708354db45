// A snapshot reads few profiles, and is the one of all of them.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/wire/part_of_node.h"
#include "tests/server/core/core_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

constexpr char kDevice[] = "synthetic-device";

class SnapshotReadsTest : public CoreTest {
 protected:
  static absl::StatusOr<SnapshotHandle> SnapshotOf(ServerCore& server,
                                                   const std::string& runtime = "parplan") {
    return server.profiles().Snapshot("synthetic", kDevice, 8, runtime);
  }

  // The snapshot of all stored profiles, merged whole.
  absl::StatusOr<ProfileSnapshot> WholeSnapshot(const std::string& runtime) {
    std::vector<v1::Profile> profiles;
    PageRequest request;
    do {
      const auto page = store().ListProfiles("synthetic", std::nullopt, request);
      EXPECT_OK(page.status());
      for (const ProfileRecord& record : page->records) {
        EXPECT_TRUE(profiles.emplace_back().ParseFromString(record.bytes));
      }
      request.page_token = page->next_page_token;
    } while (!request.page_token.empty());
    std::vector<const v1::Profile*> pointers;
    pointers.reserve(profiles.size());
    for (const v1::Profile& profile : profiles) pointers.push_back(&profile);
    return SnapshotOfNodes(pointers, kDevice, 8, runtime);
  }

  // Profiles that the store reads for one snapshot.
  int64_t ReadCount() {
    const int64_t before = store().snapshot_profile_count();
    EXPECT_OK(SnapshotOf(core()).status());
    return store().snapshot_profile_count() - before;
  }
};

// A profile with values of its own.
v1::Profile Measured(int number) {
  v1::Profile profile = SyntheticProfile({});
  for (v1::LayerTiming& timing : *profile.mutable_layer_timings()) {
    timing.mutable_forward_duration()->set_nanos(1000 + number);
    timing.clear_forward_duration_p90();
  }
  return profile;
}

TEST_F(SnapshotReadsTest, OneProfileIsReadHoweverManyNodesMeasuredTheSame) {
  Start();
  for (int i = 0; i < 200; ++i) {
    ASSERT_OK(Upload(Measured(i), absl::StrCat("id-", i), absl::StrCat("node-", i)));
  }
  EXPECT_EQ(ReadCount(), 1);
  // Nothing is read again until a profile comes, and then the newest.
  EXPECT_EQ(ReadCount(), 0);
  ASSERT_OK(Upload(Measured(500), "another", "node-7"));
  EXPECT_EQ(ReadCount(), 1);
  EXPECT_EQ(SnapshotOf(core())->snapshot->digest(), WholeSnapshot("parplan")->digest());
  // Another server has read nothing yet.
  const std::unique_ptr<ServerCore> other = MakeCore(store().OpenAgain(), nullptr);
  const int64_t before = store().snapshot_profile_count();
  EXPECT_EQ(SnapshotOf(*other)->snapshot->digest(), SnapshotOf(core())->snapshot->digest());
  EXPECT_EQ(store().snapshot_profile_count() - before, 1);
  // Nor does the report of what is stored read more.
  ASSERT_OK(core().profiles().ReportKinds());
  EXPECT_EQ(store().snapshot_profile_count() - before, 2);
}

TEST_F(SnapshotReadsTest, ProfilesOfAnOlderReleaseAreReadOnce) {
  Start();
  for (int i = 0; i < 600; ++i) {
    ASSERT_OK(Upload(Measured(i), absl::StrCat("id-", i), absl::StrCat("node-", i)));
  }
  ASSERT_OK_AND_ASSIGN(const SnapshotHandle snapshot, SnapshotOf(core()));
  // That release stored profiles without a coverage.
  std::map<std::string, std::string> none;
  PageRequest request = {.page_size = kMaxPageSize};
  do {
    ASSERT_OK_AND_ASSIGN(const Page<ProfileRecord> page,
                         store().ListProfiles("synthetic", std::nullopt, request));
    for (const ProfileRecord& record : page.records) none[record.name] = "";
    request.page_token = page.next_page_token;
  } while (!request.page_token.empty());
  ASSERT_EQ(none.size(), 600u);
  ASSERT_OK(store().SetCoverages(none));
  Start(store().OpenAgain());
  EXPECT_EQ(ReadCount(), 600);
  EXPECT_EQ(SnapshotOf(core())->snapshot->digest(), snapshot.snapshot->digest());
  ASSERT_OK(core().Maintain());
  Start(store().OpenAgain());
  EXPECT_EQ(ReadCount(), 1);
  EXPECT_EQ(SnapshotOf(core())->snapshot->digest(), snapshot.snapshot->digest());
}

// Damage in the value of a hidden profile would be found if the profile were parsed.
TEST_F(SnapshotReadsTest, HiddenProfilesOfAnOlderReleaseAreNotParsed) {
  Start();
  ASSERT_OK_AND_ASSIGN(const v1::Profile first, Upload(Measured(1), "one", "node-1"));
  ASSERT_OK_AND_ASSIGN(ProfileRecord damaged, store().GetProfile(first.name()));
  ASSERT_OK(store().DeleteProfile(first.name()));
  // A duration of 1,001 ns; the type of its field becomes one that does not exist.
  const size_t place = damaged.bytes.find("\x10\xe9\x07");
  ASSERT_NE(place, std::string::npos);
  damaged.bytes[place] = '\x17';
  damaged.coverage.clear();
  ASSERT_OK(store().PutProfile(damaged));
  EXPECT_THAT(SnapshotOf(core()).status(), StatusIs(absl::StatusCode::kDataLoss));
  ASSERT_OK_AND_ASSIGN(const v1::Profile second, Upload(Measured(2), "two", "node-2"));
  ASSERT_OK(store().SetCoverages({{second.name(), ""}}));
  ASSERT_OK_AND_ASSIGN(const SnapshotHandle snapshot, SnapshotOf(core()));
  EXPECT_OK(core().profiles().ReportKinds());
  while (*core().profiles().CoverOldProfiles()) {
  }
  EXPECT_THAT(store().ProfilesWithoutCoverage(), IsOkAndHolds(testing::IsEmpty()));
  ASSERT_OK(store().DeleteProfile(damaged.name));
  EXPECT_EQ(SnapshotOf(core())->snapshot->digest(), snapshot.snapshot->digest());
}

// The damaged one still fails the snapshot, as it would without coverages.
TEST_F(SnapshotReadsTest, AProfileThatCannotBeReadHidesNoOther) {
  Start();
  ASSERT_OK(Upload(Measured(1), "one"));
  ProfileRecord damaged;
  damaged.name = "clusters/synthetic/nodes/node-9/profiles/damaged";
  damaged.cluster = "synthetic";
  damaged.node = "node-9";
  damaged.device_kind = kDevice;
  damaged.bytes = "\xff\xff";
  ASSERT_OK(store().PutProfile(damaged));
  EXPECT_OK(core().profiles().CoverOldProfiles());
  EXPECT_THAT(store().ProfilesWithoutCoverage(), IsOkAndHolds(testing::IsEmpty()));
  EXPECT_THAT(SnapshotOf(core()).status(), StatusIs(absl::StatusCode::kDataLoss));
  ASSERT_OK(store().DeleteProfile(damaged.name));
  EXPECT_OK(SnapshotOf(core()).status());
}

// Two servers on one store, profiles of a few kinds that come, go and expire in any order.
TEST_F(SnapshotReadsTest, AfterAnyChangesTheSnapshotIsThatOfAllProfiles) {
  limits.profiles_per_node = 2;
  for (unsigned seed = 0; seed < 12; ++seed) {
    Start();
    const std::unique_ptr<ServerCore> other = MakeCore(store().OpenAgain(), nullptr);
    std::mt19937 random(seed);
    const auto draw = [&random](int below) {
      return std::uniform_int_distribution<int>(0, below - 1)(random);
    };
    for (int step = 0; step < 40; ++step) {
      ASSERT_OK_AND_ASSIGN(
          const Page<ProfileRecord> stored,
          store().ListProfiles("synthetic", std::nullopt, {.page_size = kMaxPageSize}));
      if (!stored.records.empty() && draw(4) == 0) {
        const size_t gone = static_cast<size_t>(draw(static_cast<int>(stored.records.size())));
        ASSERT_OK(store().DeleteProfile(stored.records[gone].name));
      } else {
        v1::Profile profile = Measured(draw(1000));
        profile.set_overlap_slowdown(1.0 + 0.001 * draw(500));
        if (draw(2) == 0) profile.set_runtime_id(draw(2) == 0 ? "torch" : "parplan");
        if (draw(3) == 0) profile.clear_collective_timings();
        if (draw(3) == 0) {
          v1::LibraryVersion& nccl = *profile.mutable_provenance()->add_library_versions();
          nccl.set_library("nccl");
          nccl.set_version(draw(4) == 0 ? "2.20" : "2.21");
        }
        if (draw(3) == 0) profile.clear_overlap_slowdown();
        ASSERT_OK_AND_ASSIGN(const v1::Profile uploaded, Upload(profile, absl::StrCat("id-", step),
                                                                absl::StrCat("node-", draw(4))));
        // As if an older release had stored it.
        if (draw(2) == 0) {
          ASSERT_OK(store().SetCoverages({{uploaded.name(), ""}}));
        }
        if (draw(8) == 0) {
          ASSERT_OK(core().profiles().CoverOldProfiles().status());
        }
      }
      for (const char* const runtime : {"parplan", "fsdp"}) {
        const auto whole = WholeSnapshot(runtime);
        for (ServerCore* const server : {&core(), other.get()}) {
          if (server == other.get() && draw(3) > 0) continue;
          const auto snapshot = SnapshotOf(*server, runtime);
          ASSERT_EQ(snapshot.status(), whole.status());
          if (!whole.ok()) continue;
          ASSERT_EQ(snapshot->snapshot->digest(), whole->digest()) << seed << " " << step;
        }
      }
    }
  }
}

}  // namespace
}  // namespace parplan
