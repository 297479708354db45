#include "planner/cost/fabric_time.h"

#include "gtest/gtest.h"
#include "tests/planner/cost/hardware_of_tests.h"

namespace parplan {
namespace {

using enum Coefficient;

constexpr double kLarge = 1e12;

Coefficients PerfectLinks() {
  Coefficients coefficients;
  coefficients[kIntraNodeEfficiency] = 1.0;
  coefficients[kInterNodeEfficiency] = 1.0;
  return coefficients;
}

constexpr Collective kCollectives[] = {Collective::kAllReduce,     Collective::kAllGather,
                                       Collective::kReduceScatter, Collective::kAllToAll,
                                       Collective::kSendReceive,   Collective::kBroadcast};
constexpr GroupShape kGroupShapes[] = {{2, 1},  {4, 1}, {8, 1}, {2, 4},
                                       {16, 1}, {4, 8}, {8, 4}, {64, 2}};

TEST(FabricTime, LargeMessagesKeepTheBusFactors) {
  // nccl-tests: time of a large message is the factor over the rate of one link.
  const FabricTime fabric(TestFabric(8), PerfectLinks(), 8);
  for (const Collective collective : kCollectives) {
    for (const int count : {2, 4, 8}) {
      EXPECT_NEAR(fabric.Time(collective, {count, 1}, kLarge).value(),
                  BusFactor(collective, count) * kLarge / 300e9, 1e-3)
          << CollectiveName(collective) << " of " << count;
    }
  }
}

TEST(FabricTime, AWholeNodeUsesAllOfItsAdapters) {
  const FabricTime fabric(TestFabric(8), PerfectLinks(), 8);
  EXPECT_NEAR(fabric.Time(Collective::kAllGather, {32, 1}, kLarge).value(),
              31.0 / 32.0 * kLarge / 200e9, 1e-2);
  // NVLink is the slower of the two when a node has enough adapters.
  const FabricTime many(TestFabric(16), PerfectLinks(), 8);
  FabricDescription wide = TestFabric(16);
  wide.inter_node.bytes_per_second_per_device = 50e9;
  EXPECT_NEAR(
      FabricTime(wide, PerfectLinks(), 8).Time(Collective::kAllGather, {32, 1}, kLarge).value(),
      31.0 / 32.0 * kLarge / 300e9, 1e-2);
}

TEST(FabricTime, GroupsSideBySideShareTheAdapters) {
  const FabricTime fabric(TestFabric(4), PerfectLinks(), 8);
  const double whole = fabric.Time(Collective::kAllReduce, {32, 1}, kLarge).value();
  // Stride 8: eight groups of one rank a node.
  const double one = fabric.Time(Collective::kAllReduce, {32, 8}, kLarge).value();
  const double two = fabric.Time(Collective::kAllReduce, {32, 4}, kLarge).value();
  EXPECT_NEAR(one / whole, 8.0, 0.01);
  EXPECT_NEAR(two / whole, 4.0, 0.01);
}

TEST(FabricTime, ADeviceSendsNoFasterThanItsAdapter) {
  FabricDescription fabric = TestFabric(8);
  fabric.inter_node.bytes_per_second_per_node = 0.0;
  const FabricTime unlimited(fabric, PerfectLinks(), 8);
  const FabricTime limited(TestFabric(8), PerfectLinks(), 8);
  EXPECT_EQ(unlimited.Time(Collective::kSendReceive, {2, 8}, kLarge),
            limited.Time(Collective::kSendReceive, {2, 8}, kLarge));
  EXPECT_NEAR(limited.Time(Collective::kSendReceive, {2, 8}, kLarge).value(), kLarge / 25e9, 1e-2);
}

TEST(FabricTime, MoreBandwidthIsNeverSlowerAndMoreBytesNeverQuicker) {
  for (const Collective collective : kCollectives) {
    for (const GroupShape& shape : kGroupShapes) {
      const FabricTime fabric(TestFabric(4), Coefficients(), 8);
      double last = 0.0;
      for (double bytes = 1e3; bytes < 1e11; bytes *= 10.0) {
        const double time = fabric.Time(collective, shape, bytes).value();
        EXPECT_GE(time, last);
        last = time;
        EXPECT_LE(
            FabricTime(TestFabric(8), Coefficients(), 8).Time(collective, shape, bytes).value(),
            time);
        FabricDescription better = TestFabric(4);
        better.intra_node.bytes_per_second_per_device *= 2.0;
        EXPECT_LE(FabricTime(better, Coefficients(), 8).Time(collective, shape, bytes).value(),
                  time);
      }
    }
  }
}

TEST(FabricTime, AnAllReduceIsAReduceScatterAndAnAllGatherInsideANode) {
  const FabricTime fabric(TestFabric(4), Coefficients(), 8);
  EXPECT_DOUBLE_EQ(fabric.Time(Collective::kAllReduce, {8, 1}, 1e8).value(),
                   fabric.Time(Collective::kReduceScatter, {8, 1}, 1e8).value() +
                       fabric.Time(Collective::kAllGather, {8, 1}, 1e8).value());
}

TEST(FabricTime, SmallAllReducesAcrossManyNodesTakeTheTree) {
  const FabricTime fabric(TestFabric(4), Coefficients(), 8);
  const double latency = Coefficients()[kNetworkLatency];
  const double small = fabric.Time(Collective::kAllReduce, {128, 8}, 8.0).value();
  // 2 log2(128) steps instead of 2 (128 - 1).
  EXPECT_NEAR(small, 14.0 * latency, 1e-6);
}

TEST(FabricTime, OfOneRankOrNoBytesIsNothing) {
  const FabricTime fabric(TestFabric(4), Coefficients(), 8);
  for (const Collective collective : kCollectives) {
    EXPECT_EQ(fabric.Time(collective, {1, 1}, 1e9), Seconds());
    EXPECT_EQ(fabric.Time(collective, {8, 1}, 0.0), Seconds());
  }
}

TEST(FabricTime, ASharedBusInsideTheNodeIsDivided) {
  FabricDescription fabric = TestFabric(4);
  fabric.intra_node.bytes_per_second_per_node = 80e9;
  const FabricTime shared(fabric, PerfectLinks(), 8);
  EXPECT_NEAR(shared.Time(Collective::kSendReceive, {2, 1}, kLarge).value(), kLarge / 10e9, 1e-2);
}

}  // namespace
}  // namespace parplan
