// Conformance of every store: profiles.

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/store/store_conformance.h"

namespace parplan {
namespace {

TEST_P(StoreConformance, AProfileComesBackExactly) {
  ProfileRecord profile = SampleProfile("c", "n", "p", 70000);
  profile.owner = "spiffe://lab.example/node/n";
  EXPECT_THAT(store().PutProfile(profile), IsOkAndHolds(profile));
  EXPECT_THAT(store().GetProfile(profile.name), IsOkAndHolds(profile));
}

TEST_P(StoreConformance, ExtremeProfilesComeBackExactly) {
  ProfileRecord empty;
  empty.name = "clusters/c/nodes/n/profiles/empty";
  empty.create_time = absl::InfinitePast();
  EXPECT_OK(store().PutProfile(empty));
  EXPECT_THAT(store().GetProfile(empty.name), IsOkAndHolds(empty));

  ProfileRecord odd = SampleProfile("c", "n", "odd");
  odd.device_kind = "Größe '; DROP TABLE profiles; --";
  odd.bytes = std::string("\0\0'\"\xff\n\0", 7);
  odd.create_time = absl::InfiniteFuture();
  EXPECT_OK(store().PutProfile(odd));
  EXPECT_THAT(store().GetProfile(odd.name), IsOkAndHolds(odd));
}

TEST_P(StoreConformance, ALargeProfileComesBackExactly) {
  const ProfileRecord profile = SampleProfile("c", "n", "large", size_t{20} << 20);
  EXPECT_OK(store().PutProfile(profile));
  EXPECT_THAT(store().GetProfile(profile.name), IsOkAndHolds(profile));
}

TEST_P(StoreConformance, ProfilesOutliveTheStore) {
  const ProfileRecord profile = SampleProfile("c", "n", "p");
  ASSERT_OK(store().PutProfile(profile));
  Reopen();
  EXPECT_THAT(store().GetProfile(profile.name), IsOkAndHolds(profile));
  EXPECT_THAT(store().ProfileRevision("c"), IsOkAndHolds(1));
}

TEST_P(StoreConformance, AnUnknownProfileIsNotFound) {
  const auto profile = store().GetProfile("clusters/c/nodes/n/profiles/none");
  EXPECT_THAT(profile, StatusIs(absl::StatusCode::kNotFound,
                                testing::HasSubstr("clusters/c/nodes/n/profiles/none")));
  EXPECT_EQ(ReasonOf(profile), Reason::kResourceNotFound);
}

TEST_P(StoreConformance, ARepeatedUploadGivesTheFirstProfile) {
  const ProfileRecord first = SampleProfile("c", "n", "first");
  ASSERT_OK(store().PutProfile(first));
  ProfileRecord again = SampleProfile("c", "n", "again");
  again.request_id = first.request_id;
  again.content_digest = first.content_digest;
  EXPECT_THAT(store().PutProfile(again), IsOkAndHolds(first));
  EXPECT_THAT(store().GetProfile(again.name), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(store().ProfileRevision("c"), IsOkAndHolds(1));
}

TEST_P(StoreConformance, ARequestIdWithOtherContentIsRefused) {
  const ProfileRecord first = SampleProfile("c", "n", "first");
  ASSERT_OK(store().PutProfile(first));
  ProfileRecord other = SampleProfile("c", "n", "other");
  other.request_id = first.request_id;
  const auto result = store().PutProfile(other);
  EXPECT_THAT(result,
              StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("request_id")));
  EXPECT_EQ(ReasonOf(result), Reason::kRequestIdReused);
  EXPECT_THAT(store().ProfileRevision("c"), IsOkAndHolds(1));
}

TEST_P(StoreConformance, ARequestIdBelongsToOneNode) {
  for (const char* node : {"n1", "n2"}) {
    ProfileRecord profile = SampleProfile("c", node, "p");
    profile.content_digest = node;
    EXPECT_THAT(store().PutProfile(profile), IsOkAndHolds(profile));
  }
}

TEST_P(StoreConformance, EmptyRequestIdsAreNotEqual) {
  for (const char* id : {"p1", "p2"}) {
    ProfileRecord profile = SampleProfile("c", "n", id);
    profile.request_id.clear();
    EXPECT_THAT(store().PutProfile(profile), IsOkAndHolds(profile));
  }
}

TEST_P(StoreConformance, ATakenNameIsRefused) {
  const ProfileRecord first = SampleProfile("c", "n", "p");
  ASSERT_OK(store().PutProfile(first));
  ProfileRecord second = first;
  second.request_id = "another";
  second.bytes = "other";
  EXPECT_THAT(store().PutProfile(second), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_THAT(store().GetProfile(first.name), IsOkAndHolds(first));
  EXPECT_THAT(store().ProfileRevision("c"), IsOkAndHolds(1));
}

TEST_P(StoreConformance, ADeletedProfileIsGoneWithItsRequestId) {
  const ProfileRecord profile = SampleProfile("c", "n", "p");
  ASSERT_OK(store().PutProfile(profile));
  ASSERT_OK(store().DeleteProfile(profile.name));
  EXPECT_THAT(store().GetProfile(profile.name), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(store().DeleteProfile(profile.name), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(store().PutProfile(profile), IsOkAndHolds(profile));
}

TEST_P(StoreConformance, TheRevisionGrowsByOneWithEveryChangeOfItsCluster) {
  EXPECT_THAT(store().ProfileRevision("c"), IsOkAndHolds(0));
  ASSERT_OK(store().PutProfile(SampleProfile("c", "n", "p1")));
  ASSERT_OK(store().PutProfile(SampleProfile("c", "n", "p2")));
  EXPECT_THAT(store().ProfileRevision("c"), IsOkAndHolds(2));
  ASSERT_OK(store().DeleteProfile(SampleProfile("c", "n", "p2").name));
  ASSERT_OK(store().DeleteProfile(SampleProfile("c", "n", "p1").name));
  EXPECT_THAT(store().ProfileRevision("c"), IsOkAndHolds(4));
  EXPECT_FALSE(store().DeleteProfile("clusters/c/nodes/n/profiles/none").ok());
  ASSERT_OK(store().PutPlan(SamplePlan("c", "plan")));
  EXPECT_THAT(store().ProfileRevision("c"), IsOkAndHolds(4));
  EXPECT_THAT(store().ProfileRevision("other"), IsOkAndHolds(0));
}

TEST_P(StoreConformance, TryingToWriteChangesNothing) {
  EXPECT_OK(store().TryWrite());
  EXPECT_THAT(store().ProfileRevisions(), IsOkAndHolds(testing::IsEmpty()));
  ProfileRecord empty;
  empty.name = "clusters//nodes//profiles/empty";
  ASSERT_OK(store().PutProfile(empty));
  ASSERT_OK(store().PutProfile(SampleProfile("c", "n", "p1")));
  EXPECT_OK(store().TryWrite());
  EXPECT_THAT(store().ProfileRevisions(),
              IsOkAndHolds(testing::ElementsAre(testing::Pair("", 1), testing::Pair("c", 1))));
}

TEST_P(StoreConformance, TheRevisionsAreThoseOfAllClustersThatEverHadProfiles) {
  EXPECT_THAT(store().ProfileRevisions(), IsOkAndHolds(testing::IsEmpty()));
  ASSERT_OK(store().PutProfile(SampleProfile("emptied", "n", "p")));
  ASSERT_OK(store().DeleteProfile(SampleProfile("emptied", "n", "p").name));
  ASSERT_OK(store().PutProfile(SampleProfile("c", "n", "p")));
  EXPECT_THAT(store().ProfileRevision("asked for only"), IsOkAndHolds(0));
  EXPECT_THAT(store().ProfileRevisions(), IsOkAndHolds(testing::ElementsAre(
                                              testing::Pair("c", 1), testing::Pair("emptied", 2))));
}

TEST_P(StoreConformance, ASnapshotHoldsTheLiveProfilesNewestFirst) {
  EXPECT_TRUE(store().SnapshotProfiles("c")->profiles.empty());
  const ProfileRecord first = SampleProfile("c", "n1", "p1");
  const ProfileRecord deleted = SampleProfile("c", "n1", "p2");
  ProfileRecord last = SampleProfile("c", "n2", "p3");
  // Newest is what came last, whatever its clock said.
  last.create_time = first.create_time - absl::Hours(5);
  ASSERT_OK(store().PutProfile(first));
  ASSERT_OK(store().PutProfile(deleted));
  ASSERT_OK(store().PutProfile(SampleProfile("other", "n1", "p1")));
  ASSERT_OK(store().PutProfile(last));
  ASSERT_OK(store().DeleteProfile(deleted.name));
  ASSERT_OK_AND_ASSIGN(const ProfileSet set, store().SnapshotProfiles("c"));
  EXPECT_THAT(set.profiles, testing::ElementsAre(last, first));
  EXPECT_EQ(set.revision, 4);
}

// The filter sees the profiles without a coverage, newest first and each once.
TEST_P(StoreConformance, ASnapshotLeavesOutProfilesThatAreNotWanted) {
  std::vector<ProfileRecord> profiles;
  for (int i = 0; i < 6; ++i) {
    ProfileRecord& profile = profiles.emplace_back(SampleProfile("c", "n", absl::StrCat(i)));
    profile.bytes = absl::StrCat("bytes of ", i);
    if (i == 2) profile.coverage = "covered";
    ASSERT_OK(store().PutProfile(profile));
  }
  std::vector<std::string> seen;
  ASSERT_OK_AND_ASSIGN(const ProfileSet set,
                       store().SnapshotProfiles("c", [&seen](absl::string_view bytes) {
                         seen.emplace_back(bytes);
                         return seen.size() % 2 == 1;
                       }));
  EXPECT_THAT(seen, testing::ElementsAre("bytes of 5", "bytes of 4", "bytes of 3", "bytes of 1",
                                         "bytes of 0"));
  EXPECT_THAT(set.profiles,
              testing::ElementsAre(profiles[5], profiles[3], profiles[2], profiles[0]));
  EXPECT_EQ(set.revision, 6);
}

TEST_P(StoreConformance, TheNewestProfilesOfThoseThatAreAlikeStay) {
  // Nodes, device kinds and kinds in an order without a pattern, each with profiles of its own.
  constexpr int kKeepCount = 3;
  std::vector<ProfileRecord> live;  // Oldest first.
  for (int i = 0; i < 60; ++i) {
    ProfileRecord profile = SampleProfile(i % 5 == 0 ? "d" : "c", absl::StrCat("n", i * 7 % 3 % 2),
                                          absl::StrCat(i), 40);
    profile.device_kind = i * 5 % 7 % 2 == 0 ? "a100" : "h100";
    profile.kind = i * 11 % 13 % 2 == 0 ? "8 BF16 " : "8 BF16 torch";
    profile.owner = i % 3 == 0 ? "cn:a" : "cn:b";
    const auto is_alike = [&profile](const ProfileRecord& other) {
      return other.cluster == profile.cluster && other.node == profile.node &&
             other.device_kind == profile.device_kind && other.kind == profile.kind;
    };
    int64_t replaced_bytes = 0;
    std::string replaced_owner;
    if (std::count_if(live.begin(), live.end(), is_alike) == kKeepCount) {
      const auto replaced = std::find_if(live.begin(), live.end(), is_alike);
      replaced_bytes = static_cast<int64_t>(replaced->bytes.size());
      replaced_owner = replaced->owner;
      live.erase(replaced);
    }
    EXPECT_THAT(store().ReplacedBytes(profile, kKeepCount, {.cluster = profile.cluster}),
                IsOkAndHolds(replaced_bytes));
    for (const char* owner : {"cn:a", "cn:b"}) {
      EXPECT_THAT(store().ReplacedBytes(profile, kKeepCount, {.owner = owner}),
                  IsOkAndHolds(owner == replaced_owner ? replaced_bytes : 0));
    }
    EXPECT_THAT(store().PutProfile(profile, kKeepCount), IsOkAndHolds(profile));
    live.push_back(profile);
  }
  EXPECT_LT(live.size(), 60u);
  int64_t count_of_c = 0;
  for (const char* cluster : {"c", "d"}) {
    std::vector<ProfileRecord> expected;
    for (auto profile = live.rbegin(); profile != live.rend(); ++profile) {
      if (profile->cluster == cluster) expected.push_back(*profile);
    }
    ASSERT_OK_AND_ASSIGN(const ProfileSet set, store().SnapshotProfiles(cluster));
    EXPECT_EQ(set.profiles, expected);
    if (cluster == std::string("c")) count_of_c = set.revision;
  }
  // One revision for each profile stored.
  EXPECT_EQ(count_of_c, 48);
}

TEST_P(StoreConformance, AProfileThatIsReplacedIsGoneWithItsRequestIdAndItsUsage) {
  const ProfileRecord first = SampleProfile("c", "n", "1");
  const ProfileRecord second = SampleProfile("c", "n", "2");
  ASSERT_OK(store().PutProfile(first, 1));
  ASSERT_OK(store().PutProfile(second, 1));
  EXPECT_THAT(store().GetProfile(first.name), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(store().Usage({}),
              IsOkAndHolds(StoredUsage{0, static_cast<int64_t>(second.bytes.size())}));
  // A retry that was answered before changes nothing, and replaces nothing.
  EXPECT_THAT(store().PutProfile(second, 1), IsOkAndHolds(second));
  EXPECT_THAT(store().PutProfile(first, 2), IsOkAndHolds(first));
  EXPECT_OK(store().GetProfile(second.name));
}

TEST_P(StoreConformance, OfProfilesWithOneCoverageTheNewestCounts) {
  std::vector<ProfileRecord> live;  // Oldest first.
  // Returns the profiles that a snapshot of `live` has, newest first.
  const auto expected = [&live] {
    std::vector<ProfileRecord> count;
    std::set<std::string> coverages;
    for (auto profile = live.rbegin(); profile != live.rend(); ++profile) {
      if (profile->cluster != "c") continue;
      if (profile->coverage.empty() || coverages.insert(profile->coverage).second) {
        count.push_back(*profile);
      }
    }
    return count;
  };
  for (int i = 0; i < 40; ++i) {
    ProfileRecord profile =
        SampleProfile(i % 6 == 0 ? "d" : "c", absl::StrCat("n", i * 7 % 5), absl::StrCat(i));
    profile.coverage = i % 9 == 0 ? "" : absl::StrCat("coverage-", i * 11 % 4);
    ASSERT_OK(store().PutProfile(profile));
    live.push_back(profile);
    if (i % 4 == 3) {
      const auto gone = live.begin() + i * 5 % static_cast<int>(live.size());
      ASSERT_OK(store().DeleteProfile(gone->name));
      live.erase(gone);
    }
    EXPECT_EQ(store().SnapshotProfiles("c")->profiles, expected()) << i;
  }
  EXPECT_LT(expected().size(), live.size() / 2);
  Reopen();
  EXPECT_EQ(store().SnapshotProfiles("c")->profiles, expected());
}

TEST_P(StoreConformance, ProfilesWithoutACoverageAreGivenOne) {
  EXPECT_THAT(store().ProfilesWithoutCoverage(), IsOkAndHolds(testing::IsEmpty()));
  ProfileRecord covered = SampleProfile("c", "n", "covered");
  covered.coverage = "one";
  ASSERT_OK(store().PutProfile(covered));
  ProfileRecord first = SampleProfile("c", "n", "first");
  ProfileRecord second = SampleProfile("d", "n", "second");
  ASSERT_OK(store().PutProfile(first));
  ASSERT_OK(store().PutProfile(second));
  EXPECT_THAT(store().ProfilesWithoutCoverage(),
              IsOkAndHolds(testing::UnorderedElementsAre(first, second)));
  ASSERT_OK(store().SetCoverages({{first.name, "one"}, {"clusters/c/nodes/n/profiles/x", "two"}}));
  EXPECT_THAT(store().ProfilesWithoutCoverage(), IsOkAndHolds(testing::ElementsAre(second)));
  first.coverage = "one";
  EXPECT_THAT(store().GetProfile(first.name), IsOkAndHolds(first));
  ASSERT_OK_AND_ASSIGN(const ProfileSet set, store().SnapshotProfiles("c"));
  EXPECT_THAT(set.profiles, testing::ElementsAre(first));
  // Two profiles were stored, and none has changed.
  EXPECT_EQ(set.revision, 2);
  ASSERT_OK_AND_ASSIGN(const StoredUsage usage, store().Usage({.cluster = "c"}));
  EXPECT_EQ(usage.byte_count, static_cast<int64_t>(covered.bytes.size() + first.bytes.size()));
}

TEST_P(StoreConformance, CoveragesOfManyProfilesAreSetAtOnce) {
  std::map<std::string, std::string> coverages;
  for (int i = 0; i < 40; ++i) {
    const ProfileRecord profile = SampleProfile("c", "n", absl::StrCat(i));
    ASSERT_OK(store().PutProfile(profile));
    coverages[profile.name] = absl::StrCat("coverage \"", i, "\" of {\\, '\u00e4'}");
  }
  ASSERT_OK(store().SetCoverages(coverages));
  EXPECT_THAT(store().ProfilesWithoutCoverage(), IsOkAndHolds(testing::IsEmpty()));
  for (const auto& [name, coverage] : coverages) {
    EXPECT_EQ(store().GetProfile(name)->coverage, coverage);
  }
  // An empty one is none.
  const std::string name = SampleProfile("c", "n", "7").name;
  ASSERT_OK(store().SetCoverages({{name, ""}}));
  EXPECT_EQ(store().GetProfile(name)->coverage, "");
  EXPECT_EQ(store().ProfilesWithoutCoverage()->size(), 1u);
  ASSERT_OK(store().SetCoverages({}));
}

// Profiles of before may be the only ones of another precision.
TEST_P(StoreConformance, ProfilesWithoutAKindAreAKindOfTheirOwn) {
  for (const char* id : {"1", "2", "3"}) {
    ASSERT_OK(store().PutProfile(SampleProfile("c", "n", id)));
  }
  ProfileRecord other = SampleProfile("c", "n", "other");
  other.kind = "8 BF16 torch";
  ASSERT_OK(store().PutProfile(other));
  ProfileRecord profile = SampleProfile("c", "n", "4");
  profile.kind = "8 BF16 ";
  ASSERT_OK(store().PutProfile(profile, 2));
  ASSERT_OK_AND_ASSIGN(const ProfileSet set, store().SnapshotProfiles("c"));
  EXPECT_THAT(set.profiles,
              testing::ElementsAre(profile, other, SampleProfile("c", "n", "3"),
                                   SampleProfile("c", "n", "2"), SampleProfile("c", "n", "1")));
  ASSERT_OK(store().PutProfile(SampleProfile("c", "n", "5"), 2));
  ASSERT_OK_AND_ASSIGN(const ProfileSet later, store().SnapshotProfiles("c"));
  EXPECT_THAT(later.profiles, testing::ElementsAre(SampleProfile("c", "n", "5"), profile, other,
                                                   SampleProfile("c", "n", "3")));
}

}  // namespace
}  // namespace parplan
