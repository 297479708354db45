// Tests the metrics that the core reports, end to end.

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/metered_store.h"
#include "server/core/snapshot_report.h"
#include "tests/server/core/core_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::Each;
using testing::Field;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class Watching : public CoreTest {};

TEST_F(Watching, EveryCallOfTheStoreIsTold) {
  StartMeasured();
  EXPECT_EQ(observer.store_calls("put_profile"), 1);
  ASSERT_OK(Ask(Question()).status());
  EXPECT_EQ(observer.store_calls("put_plan"), 1);
  EXPECT_EQ(observer.store_calls("snapshot_profiles"), 1);
  EXPECT_FALSE(core().store().GetPlan("clusters/lab/plans/none").ok());
  EXPECT_EQ(observer.store_calls("get_plan", absl::StatusCode::kNotFound), 1);
}

TEST_F(Watching, AProfileIsToldWhenItIsStoredAndWhenPlansRestOnIt) {
  StartMeasured();
  ASSERT_THAT(observer.profiles(), SizeIs(1));
  const SnapshotReport stored = observer.profiles()[0];
  EXPECT_FALSE(stored.cluster.empty());
  EXPECT_THAT(stored.bandwidths, IsEmpty());
  EXPECT_THAT(observer.snapshots(), IsEmpty());
  ASSERT_OK(Ask(Question()).status());
  ASSERT_THAT(observer.snapshots(), SizeIs(1));
  const SnapshotReport loaded = observer.snapshots()[0];
  EXPECT_EQ(loaded.cluster, stored.cluster);
  EXPECT_EQ(loaded.device_kind, stored.device_kind);
  EXPECT_EQ(loaded.newest_measurement, stored.newest_measurement);
  EXPECT_THAT(loaded.bandwidths, Not(IsEmpty()));
  for (const MeasuredBandwidth& measured : loaded.bandwidths) {
    EXPECT_GT(measured.bandwidth.bytes_per_second(), 0.0);
  }
}

// Another server on the same store reports the same, including what it did not receive itself.
TEST_F(Watching, WhatIsStoredIsToldByEveryServerAndAgainWhenItChanges) {
  StartMeasured();
  const SnapshotReport stored = observer.profiles()[0];
  const auto other = MakeCore(store().OpenAgain(), nullptr);
  ASSERT_OK(other->Maintain());
  ASSERT_THAT(observer.stored_kinds(), SizeIs(1));
  const auto [cluster, kinds] = observer.stored_kinds()[0];
  EXPECT_EQ(cluster, stored.cluster);
  ASSERT_THAT(kinds, SizeIs(1));
  EXPECT_EQ(kinds[0].device_kind, stored.device_kind);
  EXPECT_EQ(kinds[0].devices_per_node, stored.devices_per_node);
  EXPECT_EQ(kinds[0].newest_measurement, stored.newest_measurement);
  // Nothing changed.
  ASSERT_OK(other->Maintain());
  EXPECT_THAT(observer.stored_kinds(), SizeIs(1));

  // An older measurement of other things than the first.
  v1::Profile older = SyntheticProfile({});
  older.clear_overlap_slowdown();
  older.mutable_provenance()->mutable_measure_time()->set_seconds(
      absl::ToUnixSeconds(stored.newest_measurement) - 86400);
  ASSERT_OK(Upload(older, "older", "node-1"));
  v1::Profile another = older;
  another.set_device_kind("another-kind");
  ASSERT_OK_AND_ASSIGN(const v1::Profile last, Upload(another, "another", "node-2"));
  ASSERT_OK(other->Maintain());
  ASSERT_THAT(observer.stored_kinds(), SizeIs(2));
  EXPECT_THAT(observer.stored_kinds()[1].second,
              testing::UnorderedElementsAre(
                  Field(&StoredKind::newest_measurement, stored.newest_measurement),
                  Field(&StoredKind::device_kind, "another-kind")));
  v1::DeleteProfileRequest request;
  request.set_name(last.name());
  ASSERT_OK(core().profiles().Delete(request));
  ASSERT_OK(other->Maintain());
  ASSERT_THAT(observer.stored_kinds(), SizeIs(3));
  EXPECT_THAT(observer.stored_kinds()[2].second, SizeIs(1));
}

// Plans rest on it, so the alert for old measurements has to know.
TEST_F(Watching, AnOlderMeasurementThatComesLaterHidesANewerOneOfTheSameThings) {
  StartMeasured();
  const absl::Time first = observer.profiles()[0].newest_measurement;
  v1::Profile older = SyntheticProfile({});
  older.mutable_provenance()->mutable_measure_time()->set_seconds(absl::ToUnixSeconds(first) -
                                                                  86400);
  ASSERT_OK(Upload(older, "older", "node-1"));
  ASSERT_OK(core().Maintain());
  ASSERT_THAT(observer.stored_kinds().back().second, SizeIs(1));
  EXPECT_EQ(observer.stored_kinds().back().second[0].newest_measurement, first - absl::Hours(24));
}

TEST_F(Watching, AStoreThatIsAwayIsLookedAtAgain) {
  StartMeasured();
  store().SetBroken(true);
  EXPECT_THAT(core().Maintain(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(observer.stored_kinds(), IsEmpty());
  store().SetBroken(false);
  EXPECT_OK(core().Maintain());
  EXPECT_THAT(observer.stored_kinds(), SizeIs(1));
}

TEST_F(Watching, ThatThereIsNoCalibrationIsToldAsWell) {
  StartMeasured();
  ASSERT_OK(Ask(Question()).status());
  EXPECT_THAT(observer.calibrations(), Not(IsEmpty()));
  EXPECT_THAT(observer.calibrations(), Each(std::optional<absl::Time>()));
}

TEST_F(Watching, TheEndOfTheKeysIsTold) {
  Start();
  ASSERT_OK(core().Maintain());
  ASSERT_THAT(observer.key_expiries(), SizeIs(1));
  EXPECT_GT(observer.key_expiries()[0], clock.Now());
}

TEST_F(Watching, TheGainIsThatOverTheBestBaseline) {
  StartMeasured();
  ASSERT_OK(Ask(Question()).status());
  EXPECT_EQ(observer.plans().back().baseline_gain, std::nullopt);
  v1::CreatePlanRequest compared = Question();
  compared.mutable_spec()->mutable_options()->set_compare_baselines(true);
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, Ask(compared));
  ASSERT_TRUE(observer.plans().back().baseline_gain.has_value());
  double best = 0.0;
  for (const v1::PlannerComparison& comparison : plan->comparisons()) {
    if (comparison.planner() == observer.plans().back().planner || !comparison.feasible()) continue;
    best = std::max(best, comparison.samples_per_second());
  }
  EXPECT_NEAR(*observer.plans().back().baseline_gain,
              observer.plans().back().predicted_samples_per_second / best, 1e-6);
}

CollectivePoint Point(Collective collective, int participants, int stride, int64_t bytes,
                      double seconds) {
  CollectivePoint point;
  point.collective = collective;
  point.participant_count = participants;
  point.rank_stride = stride;
  point.message_size = Bytes::Of(bytes);
  point.duration = Seconds::Of(seconds);
  return point;
}

TEST(BandwidthsOf, TakesTheLargestMessageAndTheBestGroupOfEachReach) {
  ProfileSnapshot::Content content;
  content.digest = "any";
  content.device_kind = "A100";
  content.devices_per_node = 8;
  content.collectives = {// Small messages are slow; only the large one counts.
                         Point(Collective::kAllReduce, 8, 1, 1000, 1.0),
                         Point(Collective::kAllReduce, 8, 1, 8000, 2.0),
                         // Worse than the group of eight: 2 (4 - 1) / 4 * 1000.
                         Point(Collective::kAllReduce, 4, 1, 4000, 4.0),
                         // Over two nodes.
                         Point(Collective::kAllReduce, 2, 8, 500, 1.0),
                         Point(Collective::kSendReceive, 2, 1, 3000, 1.0)};
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot snapshot, ProfileSnapshot::Create(content));
  const std::vector<MeasuredBandwidth> bandwidths = BandwidthsOf(snapshot, 8);
  ASSERT_THAT(bandwidths, SizeIs(3));
  EXPECT_EQ(bandwidths[0].reach, LinkReach::kWithinNode);
  EXPECT_EQ(bandwidths[0].collective, Collective::kAllReduce);
  EXPECT_DOUBLE_EQ(bandwidths[0].bandwidth.bytes_per_second(), 2.0 * 7.0 / 8.0 * 4000.0);
  EXPECT_EQ(bandwidths[1].collective, Collective::kSendReceive);
  EXPECT_DOUBLE_EQ(bandwidths[1].bandwidth.bytes_per_second(), 3000.0);
  EXPECT_EQ(bandwidths[2].reach, LinkReach::kAcrossNodes);
  EXPECT_DOUBLE_EQ(bandwidths[2].bandwidth.bytes_per_second(), 500.0);
}

}  // namespace
}  // namespace parplan
