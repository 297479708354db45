#include "proto/wire/part_of_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
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
