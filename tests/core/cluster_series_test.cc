#include "server/metrics/cluster_series.h"

#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <string>

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

TEST_F(ClusterSeriesTest, TellsTheStalestKindOfNode) {
  series.SnapshotLoaded(Report("A100", 1000, 200e9));
  EXPECT_THAT(Text(),
              HasSubstr("parplan_profile_measurement_timestamp_seconds{cluster=\"lab\"} 1000"));
  series.SnapshotLoaded(Report("H100", 3000, 400e9));
  EXPECT_THAT(Text(), HasSubstr("_timestamp_seconds{cluster=\"lab\"} 1000"));
  EXPECT_THAT(Text(), HasSubstr("parplan_profile_bus_bandwidth_bytes_per_second{cluster=\"lab\","
                                "collective=\"all_reduce\",tier=\"within_node\"} 200000000000"));
  // A new measurement counts before any plan was made with it, an old one not.
  series.ProfileStored(Report("A100", 2000, 0.0));
  EXPECT_THAT(Text(), HasSubstr("_timestamp_seconds{cluster=\"lab\"} 2000"));
  series.ProfileStored(Report("A100", 500, 0.0));
  EXPECT_THAT(Text(), HasSubstr("_timestamp_seconds{cluster=\"lab\"} 2000"));
  // What is loaded holds, also where newer profiles were deleted.
  series.SnapshotLoaded(Report("A100", 700, 100e9));
  EXPECT_THAT(Text(), HasSubstr("_timestamp_seconds{cluster=\"lab\"} 700"));
  EXPECT_THAT(Text(), HasSubstr("tier=\"within_node\"} 100000000000"));
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

TEST_F(ClusterSeriesTest, ClustersBeyondTheLimitShareALabelAndTellNoState) {
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
