#include "server/core/knowledge_keeper.h"
#include "proto/wire/published_calibration.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/core_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kLibraryDevice[] = "NVIDIA A100-SXM4-80GB";

Topology MakeTopology(const std::string& device_kind, const std::string& fabric_id = "") {
  NodeGroup group;
  group.node_group_id = "all";
  group.device_kind = device_kind;
  group.node_count = 2;
  group.devices_per_node = 8;
  group.device_memory = Bytes::Of(int64_t{80} << 30);
  absl::StatusOr<Topology> topology =
      Topology::Create("synthetic", {group}, {{"node", 8}, {"fabric", 16}}, fabric_id);
  EXPECT_OK(topology);
  return *std::move(topology);
}

class KnowledgeKeeperTest : public CoreTest {
 protected:
  KnowledgeKeeperTest() { Start(); }

  absl::StatusOr<JobKnowledge> Find(const Topology& topology, bool allow_estimates) {
    KnowledgeKeeper keeper(core().profiles(), core().calibrations());
    absl::StatusOr<KnowledgeVersion> version = keeper.Version(topology.cluster());
    if (!version.ok()) return version.status();
    PlanningRules rules;
    rules.allow_estimates = allow_estimates;
    return keeper.Find(topology, *version, rules, "spec.topology");
  }
};

TEST_F(KnowledgeKeeperTest, AMeasuredDeviceOfTheLibraryHasBoth) {
  v1::Profile profile = SyntheticProfile({});
  profile.set_device_kind(kLibraryDevice);
  ASSERT_OK(Upload(profile, "once"));
  for (const bool allow_estimates : {false, true}) {
    ASSERT_OK_AND_ASSIGN(const JobKnowledge known,
                         Find(MakeTopology(kLibraryDevice), allow_estimates));
    ASSERT_NE(known.knowledge.groups.front().profile, nullptr);
    ASSERT_NE(known.knowledge.groups.front().hardware, nullptr);
    EXPECT_EQ(known.knowledge.groups.front().hardware->device.device_id, "a100-sxm-80gb");
    EXPECT_EQ(known.hardware_digest.size(), 64u);
    EXPECT_EQ(known.knowledge.calibration, PublishedCalibration());
    EXPECT_EQ(known.calibration_digest, PublishedCalibration()->content().digest);
    EXPECT_NE(known.newest_measurement, absl::InfinitePast());
  }
}

TEST_F(KnowledgeKeeperTest, WithoutMeasurementsAnEstimateHasToBeAskedFor) {
  const absl::Status refused = Find(MakeTopology(kLibraryDevice), false).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(refused), Reason::kProfileMissing);
  EXPECT_EQ(FactOf(refused, "count"), "1");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("options.allow_estimates"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("a100-sxm-80gb"));

  ASSERT_OK_AND_ASSIGN(const JobKnowledge known, Find(MakeTopology(kLibraryDevice), true));
  EXPECT_EQ(known.knowledge.groups.front().profile, nullptr);
  EXPECT_NE(known.knowledge.groups.front().hardware, nullptr);
  EXPECT_EQ(known.newest_measurement, absl::InfinitePast());
}

TEST_F(KnowledgeKeeperTest, ADeviceThatNobodyKnowsCannotBeEstimated) {
  for (const bool allow_estimates : {false, true}) {
    const absl::Status refused = Find(MakeTopology("abacus"), allow_estimates).status();
    EXPECT_EQ(ReasonOf(refused), Reason::kProfileMissing);
    EXPECT_THAT(FactOf(refused, "missing0"), HasSubstr("`abacus`"));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("not in the library"));
    EXPECT_THAT(std::string(refused.message()), Not(HasSubstr("allow_estimates")));
  }
}

TEST_F(KnowledgeKeeperTest, OtherLinksAreOtherHardware) {
  ASSERT_OK_AND_ASSIGN(const JobKnowledge usual, Find(MakeTopology(kLibraryDevice), true));
  ASSERT_OK_AND_ASSIGN(const JobKnowledge slow,
                       Find(MakeTopology(kLibraryDevice, "nvlink-3+ethernet-1x25"), true));
  EXPECT_NE(slow.hardware_digest, usual.hardware_digest);
  const absl::Status unknown = Find(MakeTopology(kLibraryDevice, "string+tin-can"), true).status();
  EXPECT_EQ(ReasonOf(unknown), Reason::kSpecInvalid);
  EXPECT_EQ(FactOf(unknown, "field"), "spec.topology.fabric_id");
}

TEST_F(KnowledgeKeeperTest, AFailingStoreIsNotTakenForMissingMeasurements) {
  KnowledgeKeeper keeper(core().profiles(), core().calibrations());
  store().SetBroken(true);
  const absl::Status status =
      keeper.Find(MakeTopology(kLibraryDevice), KnowledgeVersion(), PlanningRules(), "topology")
          .status();
  EXPECT_EQ(ReasonOf(status), Reason::kStoreUnavailable);
}

}  // namespace
}  // namespace parplan
