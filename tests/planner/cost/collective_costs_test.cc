#include "planner/cost/collective_costs.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "planner/model/coefficients.h"
#include "tests/planner/cost/hardware_of_tests.h"

namespace parplan {
namespace {

constexpr GroupShape kPair{2, 1};
constexpr GroupShape kStridedPair{2, 2};
constexpr GroupShape kFour{4, 1};
constexpr GroupShape kAcrossNodes{8, 8};
constexpr double kMessage = 1e6;

// Only all-reduces of pairs of neighbours: 1 ms for 1 MB.
ProfileSnapshot Profile() {
  ProfileSnapshot::Content content;
  content.digest = "pairs";
  content.device_kind = "TestDevice";
  content.devices_per_node = 8;
  content.collectives.push_back({Collective::kAllReduce, kPair.participant_count, kPair.rank_stride,
                                 Bytes::Of(1'000'000), Seconds::Milliseconds(1),
                                 Origin::kMeasured});
  return *ProfileSnapshot::Create(content);
}

FabricTime TestFabricTime() { return FabricTime(TestFabric(8), Coefficients(), 8); }

TEST(CollectiveCosts, TakeWhatWasMeasuredBeforeTheDataSheet) {
  CollectiveCosts costs(Profile(), 8, TestFabricTime(), /*allow_estimates=*/true);
  ResolutionNotes notes;
  costs.Resolve(Collective::kAllReduce, {kPair}, notes);
  EXPECT_TRUE(notes.estimated.empty());
  EXPECT_TRUE(notes.missing.empty());
  EXPECT_DOUBLE_EQ(costs.Time(Collective::kAllReduce, kPair, kMessage).milliseconds(), 1.0);
  // Half an all-reduce is no estimate.
  costs.Resolve(Collective::kAllGather, {kPair}, notes);
  EXPECT_TRUE(notes.estimated.empty());
  EXPECT_DOUBLE_EQ(costs.Time(Collective::kAllGather, kPair, kMessage).milliseconds(), 0.5);
}

TEST(CollectiveCosts, TakeAnotherStrideBeforeTheDataSheetAndSaySo) {
  CollectiveCosts costs(Profile(), 8, TestFabricTime(), /*allow_estimates=*/true);
  ResolutionNotes notes;
  costs.Resolve(Collective::kAllReduce, {kPair, kStridedPair}, notes);
  EXPECT_DOUBLE_EQ(costs.Time(Collective::kAllReduce, kStridedPair, kMessage).milliseconds(), 1.0);
  EXPECT_EQ(notes.estimated, (std::vector<std::string>{
                                 "all-reduce: taken from the nearest stride of as many ranks for "
                                 "2 ranks, stride 2"}));
}

TEST(CollectiveCosts, TakeTheDataSheetBeforeUnlikeGroups) {
  CollectiveCosts costs(Profile(), 8, TestFabricTime(), /*allow_estimates=*/true);
  ResolutionNotes notes;
  costs.Resolve(Collective::kAllReduce, {kPair, kFour}, notes);
  EXPECT_EQ(costs.Time(Collective::kAllReduce, kFour, kMessage),
            TestFabricTime().Time(Collective::kAllReduce, kFour, kMessage));
  EXPECT_EQ(notes.estimated,
            (std::vector<std::string>{
                "all-reduce: taken from the data sheet of the links for 4 ranks, stride 1"}));
}

TEST(CollectiveCosts, TakeUnlikeGroupsWhereThereIsNoDataSheet) {
  CollectiveCosts costs(Profile(), 8, std::nullopt, /*allow_estimates=*/true);
  ResolutionNotes notes;
  costs.Resolve(Collective::kAllReduce, {kFour}, notes);
  // Equal bus bandwidth: 2 x 3/4 over 2 x 1/2.
  EXPECT_NEAR(costs.Time(Collective::kAllReduce, kFour, kMessage).milliseconds(), 1.5, 1e-12);
  EXPECT_EQ(notes.estimated,
            (std::vector<std::string>{
                "all-reduce: taken from the most similar group for 4 ranks, stride 1"}));
  // Nothing inside a node says anything of what crosses nodes.
  costs.Resolve(Collective::kAllReduce, {kAcrossNodes}, notes);
  EXPECT_EQ(notes.missing, (std::vector<std::string>{"all-reduce on 8 ranks, stride 8"}));
}

TEST(CollectiveCosts, SayInOneSentenceThatAllIsFromTheDataSheet) {
  CollectiveCosts costs(Profile(), 8, TestFabricTime(), /*allow_estimates=*/true);
  ResolutionNotes notes;
  costs.Resolve(Collective::kSendReceive, {kPair, kAcrossNodes}, notes);
  EXPECT_EQ(notes.estimated,
            (std::vector<std::string>{"send-receive: taken from the data sheet of the links"}));
}

TEST(CollectiveCosts, WithoutEstimatesListWhatIsMissingDataSheetOrNot) {
  CollectiveCosts costs(Profile(), 8, TestFabricTime(), /*allow_estimates=*/false);
  EXPECT_FALSE(costs.has_fabric());
  ResolutionNotes notes;
  costs.Resolve(Collective::kAllReduce, {kPair, kFour, kAcrossNodes}, notes);
  EXPECT_EQ(notes.missing, (std::vector<std::string>{"all-reduce on 4 ranks, stride 1",
                                                     "all-reduce on 8 ranks, stride 8"}));
  EXPECT_TRUE(costs.Knows(Collective::kAllReduce, kPair));
  EXPECT_FALSE(costs.Knows(Collective::kAllReduce, kFour));
}

TEST(CollectiveCosts, OfOneRankAreNothing) {
  const CollectiveCosts costs(Profile(), 8, std::nullopt, /*allow_estimates=*/false);
  EXPECT_EQ(costs.Time(Collective::kAllReduce, {1, 1}, kMessage), Seconds());
}

// A group inside a node is never slower than as many ranks spread over nodes, for messages
// that links and not hops take the time of: NCCL's chain inside a node has more hops than
// its tree between nodes.
TEST(CollectiveCosts, InsideANodeAreNeverSlowerThanAcrossNodes) {
  const CollectiveCosts costs(ProfileSnapshot(*ProfileSnapshot::Create([] {
                                ProfileSnapshot::Content content;
                                content.digest = "empty";
                                content.device_kind = "TestDevice";
                                content.devices_per_node = 8;
                                return content;
                              }())),
                              8, TestFabricTime(), /*allow_estimates=*/true);
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
        Collective::kAllToAll, Collective::kSendReceive}) {
    for (const int count : {2, 4, 8}) {
      for (const double bytes : {1e7, 1e8, 1e9}) {
        Seconds before = costs.Time(collective, {count, 1}, bytes);
        for (const int stride : {2, 4, 8, 16}) {
          const Seconds wider = costs.Time(collective, {count, stride}, bytes);
          EXPECT_LE(before, wider)
              << CollectiveName(collective) << " " << count << " stride " << stride;
          before = wider;
        }
      }
    }
  }
}

}  // namespace
}  // namespace parplan
