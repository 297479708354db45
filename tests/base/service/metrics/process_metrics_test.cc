#include "base/service/metrics/process_metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/service/metrics/build_metrics.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parplan {
namespace {

using testing::HasSubstr;

std::map<std::string, double> Values() {
  std::map<std::string, double> values;
  for (const prometheus::MetricFamily& family : MakeProcessMetrics()->Collect()) {
    EXPECT_EQ(family.metric.size(), 1) << family.name;
    EXPECT_FALSE(family.help.empty()) << family.name;
    const prometheus::ClientMetric& metric = family.metric.front();
    values[family.name] =
        family.type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value;
  }
  return values;
}

TEST(ProcessMetrics, ReportsWhatThisProcessHolds) {
  const std::map<std::string, double> values = Values();
  ASSERT_EQ(values.size(), 7);
  // Less than this binary no process holds; nor more than its address space.
  EXPECT_GT(values.at("process_resident_memory_bytes"), 1e6);
  EXPECT_LT(values.at("process_resident_memory_bytes"), values.at("process_virtual_memory_bytes"));
  EXPECT_GE(values.at("process_threads"), 1.0);
  EXPECT_GT(values.at("process_max_fds"), values.at("process_open_fds"));
  // Between a year ago and now, with room for clocks that were set.
  const auto now = static_cast<double>(std::time(nullptr));
  EXPECT_GT(values.at("process_start_time_seconds"), now - 365.0 * 86400.0);
  EXPECT_LT(values.at("process_start_time_seconds"), now + 86400.0);
}

TEST(ProcessMetrics, CountsFilesThatAreOpened) {
  const double before = Values().at("process_open_fds");
  int ends[2] = {};
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(Values().at("process_open_fds"), before + 2.0);
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(Values().at("process_open_fds"), before);
}

TEST(ProcessMetrics, ProcessorTimeGrowsWithWork) {
  const double before = Values().at("process_cpu_seconds_total");
  volatile double sum = 0.0;
  while (Values().at("process_cpu_seconds_total") == before) {
    for (int i = 0; i < 100000; ++i) sum = sum + 1.0 / (i + 1);
  }
  EXPECT_GT(Values().at("process_cpu_seconds_total"), before);
}

TEST(BuildInfo, SaysWhichReleaseRuns) {
  prometheus::Registry registry;
  AddBuildInfo(registry, "parplan-test", "1.2.3");
  EXPECT_THAT(prometheus::TextSerializer().Serialize(registry.Collect()),
              HasSubstr("parplan_build_info{program=\"parplan-test\",version=\"1.2.3\"} 1"));
}

}  // namespace
}  // namespace parplan
