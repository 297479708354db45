#include "profiler-agent/measure/clock_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace parplan {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

GpuSet GpusAt(int first_clock, int second_clock, uint64_t second_limits = 0,
              int second_utilization = 100) {
  GpuSet gpus;
  gpus.devices = {{.index = 2, .max_sm_clock_mhz = 1980, .power_limit_milliwatts = 700000},
                  {.index = 0}};
  gpus.states = {{.utilization_percent = 100,
                  .sm_clock_mhz = first_clock,
                  .clock_limits = 4,
                  .power_milliwatts = 650000 + first_clock,
                  .temperature_celsius = 60},
                 {.utilization_percent = second_utilization,
                  .sm_clock_mhz = second_clock,
                  .clock_limits = second_limits}};
  return gpus;
}

TEST(ClockLog, SumsUpEachGpuUnderLoad) {
  ClockLog log(/*device_count=*/2);
  EXPECT_THAT(log.Notes(), IsEmpty());
  log.Add(GpusAt(1980, 1500));
  log.Add(GpusAt(1410, 1510));
  log.Add(GpusAt(1740, 345, /*second_limits=*/1, /*second_utilization=*/3));
  EXPECT_THAT(
      log.Notes(),
      ElementsAre(
          "GPU 0 ran at 1500 to 1510 MHz under load, median 1510.",
          "GPU 2 ran at 1410 to 1980 MHz under load, median 1740, of at most 1980; it took "
          "up to 651 W of 700, at up to 60 degrees Celsius; of 3 looks its clock was limited "
          "by its power limit in 3. WARNING: its clock moved by 33 % while times were "
          "measured; those of short work can be too small by as much."));
}

TEST(ClockLog, LeavesOutGpusThatAreNotMeasured) {
  ClockLog log(/*device_count=*/1);
  log.Add(GpusAt(1740, 345, /*second_limits=*/0x40));
  EXPECT_THAT(log.Notes(), ElementsAre(HasSubstr("GPU 2 ran at 1740")));
}

TEST(ClockLog, HeatAndPowerSuppliesMakeAGpuSlowerThanItsKind) {
  for (const uint64_t fault : {0x8, 0x20, 0x40, 0x80}) {
    ClockLog log(/*device_count=*/2);
    log.Add(GpusAt(1700, 1500, fault | 4));
    EXPECT_THAT(log.Notes(),
                ElementsAre(AllOf(HasSubstr("in 1"), HasSubstr("slower than its kind")),
                            Not(HasSubstr("WARNING"))));
  }
}

}  // namespace
}  // namespace parplan
