#include "clients/import/galvatron_hardware.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/clients/import/import_test_files.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr int64_t kMebibyte = int64_t{1} << 20;

// The timing of one group, or null.
const v1::CollectiveTiming* Find(const GalvatronHardware& hardware, v1::Collective collective,
                                 int participants, int stride) {
  for (const v1::CollectiveTiming& timing : hardware.timings) {
    if (timing.collective() == collective && timing.participant_count() == participants &&
        timing.rank_stride() == stride) {
      return &timing;
    }
  }
  return nullptr;
}

TEST(GalvatronHardware, BusBandwidthBecomesTheTimeOfOneMessage) {
  GalvatronHardwareFiles files;
  files.all_reduce = {"allreduce_bandwidth_1nodes_8gpus_per_node.json",
                      R"({"allreduce_size_8_consec_1": 100, "allreduce_size_4_consec_0": 50})"};
  ASSERT_OK_AND_ASSIGN(const GalvatronHardware hardware, ReadGalvatronHardware(files, {}));
  EXPECT_EQ(hardware.nodes.devices_per_node, 8);
  EXPECT_EQ(hardware.nodes.node_count, 1);
  ASSERT_EQ(hardware.timings.size(), 2u);
  // 2 * 7 / 8 * 2^28 bytes at 100e9 bytes a second.
  const v1::CollectiveTiming* whole = Find(hardware, v1::COLLECTIVE_ALL_REDUCE, 8, 1);
  ASSERT_NE(whole, nullptr);
  EXPECT_EQ(whole->message_size_bytes(), 256 * kMebibyte);
  EXPECT_EQ(Nanoseconds(whole->median_duration()), 4697620);
  EXPECT_EQ(whole->origin(), v1::ORIGIN_DERIVED);
  // Every second device: 2 * 3 / 4 * 2^28 / 50e9.
  const v1::CollectiveTiming* strided = Find(hardware, v1::COLLECTIVE_ALL_REDUCE, 4, 2);
  ASSERT_NE(strided, nullptr);
  EXPECT_EQ(Nanoseconds(strided->median_duration()), 8053064);
}

TEST(GalvatronHardware, MeasuredTablesReplaceTheBandwidthOfTheirGroup) {
  GalvatronHardwareFiles files;
  files.all_reduce = {"a_1nodes_8gpus_per_node.json",
                      R"({"allreduce_size_4_consec_1": 100, "allreduce_size_4_consec_0": 50})"};
  files.tables = {"sp_time_1nodes_8gpus_per_node.json",
                  R"({"allreduce_size_4_1MB_time": 0.08, "allreduce_size_4_2MB_time": 0.1,
                      "all2all_size_4_1MB_time": 0.05, "allreduce_size_16_1MB_time": 1})"};
  ASSERT_OK_AND_ASSIGN(const GalvatronHardware hardware, ReadGalvatronHardware(files, {}));
  ASSERT_EQ(hardware.timings.size(), 4u);
  const v1::CollectiveTiming* measured = Find(hardware, v1::COLLECTIVE_ALL_REDUCE, 4, 1);
  ASSERT_NE(measured, nullptr);
  EXPECT_EQ(measured->message_size_bytes(), kMebibyte);
  EXPECT_EQ(Nanoseconds(measured->median_duration()), 80'000);
  EXPECT_EQ(measured->origin(), v1::ORIGIN_MEASURED);
  EXPECT_NE(Find(hardware, v1::COLLECTIVE_ALL_REDUCE, 4, 2), nullptr);
  EXPECT_NE(Find(hardware, v1::COLLECTIVE_ALL_TO_ALL, 4, 1), nullptr);
  EXPECT_THAT(hardware.notes, Contains(HasSubstr("groups of 16")));
}

TEST(GalvatronHardware, ATableThatIsLeftOutReplacesNothing) {
  GalvatronHardwareFiles files;
  files.all_reduce = {"a_1nodes_8gpus_per_node.json", R"({"allreduce_size_8_consec_1": 100})"};
  files.tables = {"sp_time_1nodes_8gpus_per_node.json", R"({"allreduce_size_8_1MB_time": 0})"};
  ASSERT_OK_AND_ASSIGN(const GalvatronHardware hardware, ReadGalvatronHardware(files, {}));
  const v1::CollectiveTiming* timing = Find(hardware, v1::COLLECTIVE_ALL_REDUCE, 8, 1);
  ASSERT_NE(timing, nullptr);
  EXPECT_EQ(timing->origin(), v1::ORIGIN_DERIVED);
  EXPECT_THAT(hardware.notes, Contains(HasSubstr("gives no time above 0 and was left out")));
}

TEST(GalvatronHardware, FilesOf2022HoldMillisecondsPerMegabyte) {
  GalvatronHardwareFiles files;
  files.all_reduce = {"allreduce_bandwidth_dist_16_gpus.json",
                      R"({"1_16_1": 0.2, "1_8_0": 0.3, "2_8_1": 0.1, "1_8_1": 0.4,
                          "2_4_0": 0.5})"};
  files.send_receive = {"p2p_bandwidth_dist_16_gpus.json", R"({"pp_deg_2": 0.5})"};
  ASSERT_OK_AND_ASSIGN(const GalvatronHardware hardware, ReadGalvatronHardware(files, {}));
  EXPECT_EQ(hardware.nodes.devices_per_node, 8);
  EXPECT_EQ(hardware.nodes.node_count, 2);
  // 2 * 15 / 16 * 256 MB * 0.2 ms.
  EXPECT_EQ(Nanoseconds(Find(hardware, v1::COLLECTIVE_ALL_REDUCE, 16, 1)->median_duration()),
            96'000'000);
  // If there are two entries for 8 neighbours, the one without a pipeline is kept.
  EXPECT_EQ(Nanoseconds(Find(hardware, v1::COLLECTIVE_ALL_REDUCE, 8, 1)->median_duration()),
            179'200'000);
  EXPECT_THAT(hardware.notes, Contains(AllOf(HasSubstr("group of 8"), HasSubstr("degree 2"))));
  // Four devices strided over a stage of eight.
  EXPECT_NE(Find(hardware, v1::COLLECTIVE_ALL_REDUCE, 4, 2), nullptr);
  const v1::CollectiveTiming* send = Find(hardware, v1::COLLECTIVE_SEND_RECEIVE, 2, 8);
  ASSERT_NE(send, nullptr);
  EXPECT_EQ(send->message_size_bytes(), 64 * kMebibyte);
  EXPECT_EQ(Nanoseconds(send->median_duration()), 32'000'000);
}

TEST(GalvatronHardware, StridesThatDoNotDivideAreLeftOut) {
  GalvatronHardwareFiles files;
  files.all_reduce = {"allreduce_bandwidth_1nodes_6gpus_per_node.json",
                      R"({"allreduce_size_4_consec_0": 155, "allreduce_size_3_consec_0": 155})"};
  ASSERT_OK_AND_ASSIGN(const GalvatronHardware hardware, ReadGalvatronHardware(files, {}));
  ASSERT_EQ(hardware.timings.size(), 1u);
  EXPECT_EQ(hardware.timings[0].rank_stride(), 2);
  EXPECT_THAT(hardware.notes, Contains(HasSubstr("group of 4")));
}

TEST(GalvatronHardware, ErrorsNameFileAndField) {
  const auto all_reduce = [](const char* text) {
    GalvatronHardwareFiles files;
    files.all_reduce = {"a_1nodes_8gpus_per_node.json", text};
    return ReadGalvatronHardware(files, {}).status();
  };
  EXPECT_THAT(all_reduce("{"), StatusIs(absl::StatusCode::kInvalidArgument,
                                        HasSubstr("a_1nodes_8gpus_per_node.json")));
  EXPECT_THAT(all_reduce(R"({"bandwidth": 3})").ToString(), HasSubstr(": bandwidth: must be"));
  EXPECT_THAT(all_reduce(R"({"allreduce_size_2_consec_1": -3})").ToString(),
              HasSubstr("must be above 0"));
  EXPECT_THAT(all_reduce(R"({"allreduce_size_16_consec_1": 3})").ToString(),
              HasSubstr("larger than 1 nodes of 8"));
  GalvatronHardwareFiles files;
  files.overlap = {"overlap_coefficient.json", R"({"overlap_coe": 0.5})"};
  EXPECT_THAT(ReadGalvatronHardware(files, {}).status().ToString(),
              HasSubstr("overlap_coe: must be at least 1"));
}

}  // namespace
}  // namespace parplan
