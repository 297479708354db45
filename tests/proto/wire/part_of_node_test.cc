#include "proto/wire/part_of_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "proto/wire/snapshot_builder.h"
#include "tests/proto/wire/small_profile.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// Nodes of 8: an all-reduce over all 8 ranks and one over 2 neighbours.
v1::Profile WholeNode() {
  v1::Profile profile = SmallProfile();
  v1::CollectiveTiming pair = profile.collective_timings(0);
  pair.set_participant_count(2);
  *profile.add_collective_timings() = pair;
  return profile;
}

TEST(SnapshotOfNodes, OfAMeasuredSizeIsTheMergedProfile) {
  const v1::Profile whole = WholeNode();
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot snapshot,
                       SnapshotOfNodes({&whole}, "GPU", 8, "parplan"));
  EXPECT_EQ(snapshot.devices_per_node(), 8);
  EXPECT_EQ(snapshot.collectives().size(), 2u);
}

TEST(SnapshotOfNodes, OfAPartKeepsLayersAndTheGroupsInsideIt) {
  const v1::Profile whole = WholeNode();
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot snapshot,
                       SnapshotOfNodes({&whole}, "GPU", 4, "parplan"));
  EXPECT_EQ(snapshot.devices_per_node(), 4);
  EXPECT_EQ(snapshot.layers().size(), 1u);
  ASSERT_EQ(snapshot.collectives().size(), 1u);
  EXPECT_EQ(snapshot.collectives()[0].participant_count, 2);
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot of_eight,
                       SnapshotOfNodes({&whole}, "GPU", 8, "parplan"));
  EXPECT_NE(snapshot.digest(), of_eight.digest());
}

TEST(SnapshotOfNodes, PrefersTheSizeThatWasMeasured) {
  const v1::Profile whole = WholeNode();
  v1::Profile half = SmallProfile();
  half.set_devices_per_node(4);
  half.mutable_collective_timings(0)->set_participant_count(4);
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot snapshot,
                       SnapshotOfNodes({&whole, &half}, "GPU", 4, "parplan"));
  ASSERT_EQ(snapshot.collectives().size(), 1u);
  EXPECT_EQ(snapshot.collectives()[0].participant_count, 4);
}

// Newer ones of another runtime give way to those of the runtime that is asked for.
TEST(SnapshotOfNodes, CollectivesOfOtherRuntimesFillGapsAlone) {
  v1::Profile newer = WholeNode();
  newer.set_runtime_id("torch");
  newer.mutable_collective_timings(0)->mutable_median_duration()->set_nanos(7);
  v1::Profile older = WholeNode();
  older.set_runtime_id("parplan");
  older.mutable_collective_timings()->DeleteSubrange(1, older.collective_timings_size() - 1);
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot alone, SnapshotOfNodes({&older}, "GPU", 8, "parplan"));
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot both,
                       SnapshotOfNodes({&newer, &older}, "GPU", 8, "parplan"));
  ASSERT_EQ(alone.collectives().size(), 1u);
  EXPECT_EQ(both.collectives().size(), static_cast<size_t>(newer.collective_timings_size()));
  EXPECT_GT(both.collectives().size(), 1u);
  EXPECT_THAT(both.collectives(), testing::Not(testing::Contains(testing::Field(
                                      &CollectivePoint::duration, Seconds::Of(7e-9)))));
  EXPECT_EQ(both.layers().size(), alone.layers().size());
}

TEST(SnapshotBuilder, AMessageMayBeUsedForAllProfiles) {
  const v1::Profile whole = WholeNode();
  v1::Profile other = WholeNode();
  other.set_devices_per_node(16);
  v1::Profile cpu = SmallProfile();
  cpu.set_device_kind("CPU");
  SnapshotBuilder builder("GPU", 8, "parplan");
  v1::Profile message;
  for (const v1::Profile& next : {cpu, other, whole, other}) {
    message.CopyFrom(next);
    EXPECT_THAT(builder.Add(message), IsOkAndHolds(next.device_kind() == "GPU"));
  }
  EXPECT_EQ(builder.measured_size(), 8);
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot built, builder.Finish());
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot merged,
                       SnapshotOfNodes({&whole}, "GPU", 8, "parplan"));
  EXPECT_EQ(built.digest(), merged.digest());
}

TEST(SnapshotOfNodes, OfAnUnevenPartOrALargerNodeIsMissing) {
  const v1::Profile whole = WholeNode();
  for (int devices_per_node : {3, 16}) {
    const absl::Status status =
        SnapshotOfNodes({&whole}, "GPU", devices_per_node, "parplan").status();
    ASSERT_TRUE(GetErrorDetail(status).has_value());
    EXPECT_EQ(GetErrorDetail(status)->reason, Reason::kProfileMissing);
  }
}

}  // namespace
}  // namespace parplan
