#include "planner/cost/collective_time.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

constexpr double kMiB = 1048576.0;
using Source = CollectiveTimes::Source;

CollectivePoint Point(Collective collective, int count, int stride, double mib,
                      double milliseconds) {
  return {
      collective,       count, stride, Bytes::Ceil(mib * kMiB), Seconds::Milliseconds(milliseconds),
      Origin::kMeasured};
}

CollectiveTimes TimesOf(std::vector<CollectivePoint> points, int devices_per_node = 8) {
  ProfileSnapshot::Content content;
  content.digest = "test";
  content.device_kind = "TestDevice";
  content.devices_per_node = devices_per_node;
  content.collectives = std::move(points);
  absl::StatusOr<ProfileSnapshot> snapshot = ProfileSnapshot::Create(std::move(content));
  EXPECT_OK(snapshot.status());
  return CollectiveTimes(*snapshot, devices_per_node);
}

TEST(BusFactor, IsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kAllReduce, 8), 1.75);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kAllGather, 8), 0.875);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kReduceScatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kAllToAll, 2), 0.5);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kSendReceive, 2), 1.0);
}

int RanksOf(int count, int stride, int devices_per_node) {
  return RanksPerNode(Collective::kAllReduce, {count, stride}, devices_per_node);
}

TEST(RanksPerNode, CountsNeighboursOnOneNode) {
  EXPECT_EQ(RanksOf(8, 1, 8), 8);
  EXPECT_EQ(RanksOf(16, 1, 8), 8);
  EXPECT_EQ(RanksOf(4, 4, 8), 2);
  EXPECT_EQ(RanksOf(2, 8, 8), 1);
  EXPECT_EQ(RanksOf(2, 4, 8), 2);
}

TEST(RanksPerNode, SeesGroupsThatLieAcrossTheEdge) {
  // On two nodes of six, ranks 4 to 7 of three groups of four.
  EXPECT_EQ(RanksOf(4, 1, 6), 2);
  // On two nodes of three, ranks 2 and 3.
  EXPECT_EQ(RanksOf(2, 1, 3), 1);
  // Ranks 4 and 6 of 0, 2; 1, 3; 4, 6; ...
  EXPECT_EQ(RanksOf(2, 2, 6), 1);
  // 3 to 5 on nodes of four: two and one.
  EXPECT_EQ(RanksOf(3, 1, 4), 2);
  // 0 to 7 on nodes of six: six and two; 8 to 15 four and four.
  EXPECT_EQ(RanksOf(8, 1, 6), 4);
  // A group that divides a node, or consists of whole nodes, does not.
  EXPECT_EQ(RanksOf(3, 2, 6), 3);
  EXPECT_EQ(RanksOf(2, 3, 6), 2);
  EXPECT_EQ(RanksOf(12, 1, 6), 6);
  // Pairs of stages are asked one by one.
  EXPECT_EQ(RanksPerNode(Collective::kSendReceive, {2, 2}, 6), 2);
}

TEST(CollectiveTimes, ReadsMeasuredPointsBack) {
  CollectiveTimes times = TimesOf({Point(Collective::kAllReduce, 8, 1, 1, 0.08),
                                   Point(Collective::kAllReduce, 8, 1, 256, 2.4)});
  EXPECT_EQ(times.Resolve(Collective::kAllReduce, {8, 1}), Source::kMeasured);
  EXPECT_DOUBLE_EQ(times.Time(Collective::kAllReduce, {8, 1}, 256 * kMiB).milliseconds(), 2.4);
}

TEST(CollectiveTimes, TakesHalfAnAllReduceForItsTwoHalves) {
  CollectiveTimes times = TimesOf({Point(Collective::kAllReduce, 4, 1, 64, 1.0)});
  EXPECT_EQ(times.Resolve(Collective::kAllGather, {4, 1}), Source::kHalfAllReduce);
  EXPECT_EQ(times.Resolve(Collective::kReduceScatter, {4, 1}), Source::kHalfAllReduce);
  EXPECT_DOUBLE_EQ(times.Time(Collective::kAllGather, {4, 1}, 64 * kMiB).milliseconds(), 0.5);
}

TEST(CollectiveTimes, PrefersAMeasuredAllGatherToHalfAnAllReduce) {
  CollectiveTimes times = TimesOf(
      {Point(Collective::kAllReduce, 4, 1, 64, 1.0), Point(Collective::kAllGather, 4, 1, 64, 0.7)});
  EXPECT_EQ(times.Resolve(Collective::kAllGather, {4, 1}), Source::kMeasured);
  EXPECT_DOUBLE_EQ(times.Time(Collective::kAllGather, {4, 1}, 64 * kMiB).milliseconds(), 0.7);
}

TEST(CollectiveTimes, OneRankNeedsNoTime) {
  EXPECT_EQ(TimesOf({}).Time(Collective::kAllReduce, {1, 1}, kMiB), Seconds());
}

TEST(CollectiveTimes, ABandwidthBorrowsTheLatencyOfItsMeasuredNeighbour) {
  // Consecutive: 0.1 ms + 0.01 ms per MiB. Strided: 3.0 ms at 256 MiB alone.
  CollectiveTimes times = TimesOf({Point(Collective::kAllReduce, 4, 1, 1, 0.11),
                                   Point(Collective::kAllReduce, 4, 1, 100, 1.1),
                                   Point(Collective::kAllReduce, 4, 1, 256, 2.66),
                                   Point(Collective::kAllReduce, 4, 2, 256, 3.0)});
  times.Resolve(Collective::kAllReduce, {4, 2});
  EXPECT_NEAR(times.Time(Collective::kAllReduce, {4, 2}, 256 * kMiB).milliseconds(), 3.0, 1e-12);
  // The 0.34 ms more at 256 MiB are 0.34/256 ms more per MiB; latency is kept.
  EXPECT_NEAR(times.Time(Collective::kAllReduce, {4, 2}, kMiB).milliseconds(), 0.11 + 0.34 / 256.0,
              1e-12);
}

TEST(CollectiveTimes, TakesTheNearestStrideOfEqualReach) {
  // Inside a node of 8, pairs were measured at strides 1 and 2.
  CollectiveTimes times = TimesOf({Point(Collective::kAllReduce, 2, 1, 256, 1.0),
                                   Point(Collective::kAllReduce, 2, 2, 256, 2.0)});
  EXPECT_EQ(times.Resolve(Collective::kAllReduce, {2, 4}), Source::kOtherStride);
  EXPECT_DOUBLE_EQ(times.Time(Collective::kAllReduce, {2, 4}, 256 * kMiB).milliseconds(), 2.0);
  EXPECT_EQ(times.Resolve(Collective::kAllGather, {2, 4}), Source::kOtherStride);
  EXPECT_DOUBLE_EQ(times.Time(Collective::kAllGather, {2, 4}, 256 * kMiB).milliseconds(), 1.0);
  // Stride 8 leaves the node, and so do some pairs of stride 3.
  EXPECT_EQ(times.Resolve(Collective::kAllReduce, {2, 8}), Source::kMissing);
  EXPECT_EQ(times.Resolve(Collective::kAllReduce, {2, 3}), Source::kMissing);
}

TEST(CollectiveTimes, EstimatesFromAShapeOfEqualReach) {
  // On nodes of 8, a group of 4 with stride 8 has one rank a node, as has the
  // measured group of 2 with stride 8; the group of 16 has eight.
  CollectiveTimes times = TimesOf({Point(Collective::kAllReduce, 2, 8, 256, 30.0),
                                   Point(Collective::kAllReduce, 16, 1, 256, 10.0),
                                   Point(Collective::kAllReduce, 4, 1, 256, 2.0)});
  EXPECT_EQ(times.Resolve(Collective::kAllReduce, {4, 8}), Source::kEstimated);
  // Bus factors 1.5 and 1.0.
  EXPECT_DOUBLE_EQ(times.Time(Collective::kAllReduce, {4, 8}, 256 * kMiB).milliseconds(), 45.0);
}

TEST(CollectiveTimes, SharesTheWayOutOfANodeWhenFewerRanksOfAGroupAreThere) {
  CollectiveTimes times = TimesOf({Point(Collective::kAllReduce, 16, 1, 256, 10.0)});
  EXPECT_EQ(times.Resolve(Collective::kAllReduce, {16, 2}), Source::kEstimated);
  EXPECT_DOUBLE_EQ(times.Time(Collective::kAllReduce, {16, 2}, 256 * kMiB).milliseconds(), 20.0);
}

TEST(CollectiveTimes, NeverEstimatesAcrossNodesFromInsideANode) {
  CollectiveTimes times = TimesOf({Point(Collective::kAllReduce, 8, 1, 256, 2.0)});
  EXPECT_EQ(times.Resolve(Collective::kAllReduce, {16, 1}), Source::kMissing);
}

}  // namespace
}  // namespace parplan
