#include "server/metrics/cluster_series.h"

#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parplan {
namespace {

using testing::HasSubstr;
using testing::Not;

absl::Time At(int64_t seconds) { return absl::FromUnixSeconds(seconds); }

SnapshotReport Report(const std::string& device_kind, int64_t measured, double bandwidth) {
  SnapshotReport report;
  report.cluster = "lab";
  report.device_kind = device_kind;
  report.devices_per_node = 8;
  report.newest_measurement = At(measured);
  if (bandwidth > 0.0) {
    report.bandwidths.push_back(
        {LinkReach::kWithinNode, Collective::kAllReduce, BusBandwidth::BytesPerSecond(bandwidth)});
  }
  return report;
}

class ClusterSeriesTest : public testing::Test {
 protected:
  std::string Text() const { return prometheus::TextSerializer().Serialize(registry.Collect()); }

  prometheus::Registry registry;
  ClusterSeries series{registry};
};

TEST_F(ClusterSeriesTest, NothingIsToldOfClustersNobodyNamed) { EXPECT_EQ(Text(), ""); }

TEST_F(ClusterSeriesTest, ReportsTheStalestKindOfNodeThatIsStored) {
  series.ProfilesSeen("lab", {{"A100", 8, At(1000)}, {"H100", 8, At(3000)}});
  EXPECT_THAT(Text(),
              HasSubstr("parplan_profile_measurement_timestamp_seconds{cluster=\"lab\"} 1000"));
  // A new measurement counts at once, an old one not, and a kind that is new does.
  series.ProfileStored(Report("A100", 2000, 0.0));
  EXPECT_THAT(Text(), HasSubstr("_timestamp_seconds{cluster=\"lab\"} 2000"));
  series.ProfileStored(Report("A100", 500, 0.0));
  EXPECT_THAT(Text(), HasSubstr("_timestamp_seconds{cluster=\"lab\"} 2000"));
  series.ProfileStored(Report("V100", 400, 0.0));
  EXPECT_THAT(Text(), HasSubstr("_timestamp_seconds{cluster=\"lab\"} 400"));
  // The store decides, even if newer profiles were deleted, perhaps by another replica.
  series.ProfilesSeen("lab", {{"A100", 8, At(700)}, {"H100", 8, At(3000)}});
  EXPECT_THAT(Text(), HasSubstr("_timestamp_seconds{cluster=\"lab\"} 700"));
  // The one that was stale has left the cluster.
  series.ProfilesSeen("lab", {{"H100", 8, At(3000)}});
  EXPECT_THAT(Text(), HasSubstr("_timestamp_seconds{cluster=\"lab\"} 3000"));
  series.ProfilesSeen("lab", {});
  EXPECT_THAT(Text(), Not(HasSubstr("parplan_profile_measurement_timestamp_seconds{")));
  series.ProfileStored(Report("A100", 5000, 0.0));
  EXPECT_THAT(Text(), HasSubstr("_timestamp_seconds{cluster=\"lab\"} 5000"));
}

TEST_F(ClusterSeriesTest, ClustersThatHaveNothingTakeNoLabel) {
  series.ProfilesSeen("emptied", {});
  EXPECT_EQ(Text(), "");
}

TEST_F(ClusterSeriesTest, OfTooManyKindsThoseMeasuredLongestAgoAreKept) {
  std::vector<StoredKind> kinds;
  for (int i = 0; i <= ClusterSeries::kMaxNodeKindCount; ++i) {
    kinds.push_back({"A100", 1 + i, At(9000 - i)});
  }
  series.ProfilesSeen("lab", kinds);
  EXPECT_THAT(Text(), HasSubstr(absl::StrCat("{cluster=\"lab\"} ",
                                             9000 - ClusterSeries::kMaxNodeKindCount)));
}

TEST_F(ClusterSeriesTest, ReportsTheLinksOfTheSlowestKindThatIsStored) {
  constexpr char kWithin[] =
      "parplan_profile_bus_bandwidth_bytes_per_second{cluster=\"lab\",collective=\"all_reduce\","
      "tier=\"within_node\"} ";
  series.ProfilesSeen("lab", {{"A100", 8, At(1)}, {"H100", 8, At(1)}});
  series.SnapshotLoaded(Report("A100", 1, 200e9));
  series.SnapshotLoaded(Report("H100", 1, 400e9));
  EXPECT_THAT(Text(), HasSubstr(absl::StrCat(kWithin, "200000000000")));
  series.SnapshotLoaded(Report("A100", 1, 100e9));
  EXPECT_THAT(Text(), HasSubstr(absl::StrCat(kWithin, "100000000000")));
  series.ProfilesSeen("lab", {{"H100", 8, At(1)}});
  EXPECT_THAT(Text(), HasSubstr(absl::StrCat(kWithin, "400000000000")));
  // Half a node was asked about, of which the whole was measured.
  SnapshotReport half = Report("H100", 1, 300e9);
  half.devices_per_node = 4;
  series.SnapshotLoaded(half);
  series.ProfilesSeen("lab", {{"H100", 8, At(2)}});
  EXPECT_THAT(Text(), HasSubstr(absl::StrCat(kWithin, "300000000000")));
  series.ProfilesSeen("lab", {});
  EXPECT_THAT(Text(), Not(HasSubstr("bytes_per_second{")));
}

TEST_F(ClusterSeriesTest, DriftIsAMeanThatForgets) {
  series.ExecutionClosed("lab", true, std::nullopt);
  EXPECT_THAT(Text(), Not(HasSubstr("parplan_step_drift_ratio")));
  series.ExecutionClosed("lab", true, 2.0);
  EXPECT_THAT(Text(), HasSubstr("parplan_step_drift_ratio{cluster=\"lab\"} 2\n"));
  for (int i = 0; i < 100; ++i) series.ExecutionClosed("lab", true, 1.0);
  EXPECT_THAT(Text(), HasSubstr("parplan_step_drift_ratio{cluster=\"lab\"} 1.00000000"));
  EXPECT_THAT(Text(),
              HasSubstr("parplan_executions_closed_total{cluster=\"lab\",state=\"failed\"} 0"));
  EXPECT_THAT(Text(), HasSubstr("parplan_step_duration_ratio_count{cluster=\"lab\"} 101"));
}

TEST_F(ClusterSeriesTest, ACalibrationThatIsPutAwayHasNoAge) {
  series.CalibrationSeen("nothing", std::nullopt);
  EXPECT_EQ(Text(), "");
  series.CalibrationSeen("lab", At(5000));
  EXPECT_THAT(Text(), HasSubstr("parplan_calibration_active{cluster=\"lab\"} 1"));
  EXPECT_THAT(Text(),
              HasSubstr("parplan_calibration_activation_timestamp_seconds{cluster=\"lab\"} 5000"));
  series.CalibrationSeen("lab", std::nullopt);
  EXPECT_THAT(Text(), HasSubstr("parplan_calibration_active{cluster=\"lab\"} 0"));
  EXPECT_THAT(Text(), Not(HasSubstr("parplan_calibration_activation_timestamp_seconds{")));
  series.CalibrationSeen("lab", At(6000));
  EXPECT_THAT(Text(), HasSubstr("_activation_timestamp_seconds{cluster=\"lab\"} 6000"));
}

TEST_F(ClusterSeriesTest, ClustersBeyondTheLimitShareALabelAndReportNoState) {
  for (int i = 0; i < ClusterSeries::kMaxClusterCount; ++i) {
    series.AgentsChanged(absl::StrCat("c", i), 1);
  }
  for (const char* late : {"late-1", "late-2"}) {
    series.AgentsChanged(late, 7);
    series.AgentHeard(late, At(1));
    series.CalibrationSeen(late, At(1));
    series.ExecutionClosed(late, true, 1.5);
    series.PeakMemoryMeasured(late, 1.1);
    SnapshotReport report = Report("A100", 1, 1e9);
    report.cluster = late;
    series.SnapshotLoaded(report);
    series.ProfileStored(report);
    series.ProfilesSeen(late, {{"A100", 8, At(1)}});
  }
  EXPECT_THAT(Text(), Not(HasSubstr("late")));
  EXPECT_THAT(Text(), HasSubstr("parplan_step_duration_ratio_count{cluster=\"other\"} 2"));
  EXPECT_THAT(
      Text(),
      HasSubstr("parplan_executions_closed_total{cluster=\"other\",state=\"succeeded\"} 2"));
  EXPECT_THAT(Text(), HasSubstr("parplan_peak_memory_ratio_count{cluster=\"other\"} 2"));
  EXPECT_THAT(Text(), Not(HasSubstr("parplan_agents_connected{cluster=\"other\"}")));
  EXPECT_THAT(Text(), Not(HasSubstr("parplan_step_drift_ratio{cluster=\"other\"}")));
}

}  // namespace
}  // namespace parplan
