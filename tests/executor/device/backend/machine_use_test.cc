#include "executor/device/backend/machine_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/busy_process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

using ::testing::HasSubstr;

constexpr char kBootId[] = "1f2e";

// A system whose counters are files of a folder. Ticks are 10 ms, as on every Linux.
class FakeSystem {
 public:
  FakeSystem() { Write("proc/sys/kernel/random/boot_id", std::string(kBootId) + "\n"); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path whole = folder_ + "/" + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  // A reader of processors 1 and 3.
  MachineReader Reader() {
    return MachineReader({.root = folder_,
                          .processors = {1, 3},
                          .process_time = [this] { return process; },
                          .clock = [this] { return clock; }});
  }

  absl::Duration process;
  absl::Duration clock;

 private:
  const std::string folder_ = MakeTestFolder();
};

// One rank that saw `elapsed` seconds of one processor: `own` of it were its own, `busy` of
// anybody, `stolen` of other machines.
RankMachineUse OnProcessor(int processor, double elapsed, double own, double busy, double stolen) {
  RankMachineUse use;
  use.boot_id = kBootId;
  use.elapsed = absl::Seconds(elapsed);
  use.process = absl::Seconds(own);
  use.processors[processor] = {.busy = absl::Seconds(busy),
                               .stolen = absl::Seconds(stolen),
                               .total = absl::Seconds(elapsed)};
  return use;
}

TEST(MachineReader, ReadsTheCountersOfItsProcessors) {
  FakeSystem system;
  //                          user nice system idle iowait irq softirq steal guest guest_nice
  system.Write("proc/stat",
               "cpu  9 9 9 9 9 9 9 9 9 9\n"
               "cpu0 999 0 0 0 0 0 0 0 0 0\n"
               "cpu1 100 20 30 500 50 1 2 40 7 7\n"
               "cpu3 10 0 0 90 0 0 0 0 0 0\n"
               "intr 1 2 3\n");
  system.Write("proc/self/cgroup", "0::/job\n");
  system.Write("sys/fs/cgroup/job/cpu.stat", "usage_usec 17\nnr_periods 2\nthrottled_usec 2500\n");
  system.Write("proc/pressure/cpu",
               "some avg10=1.00 avg60=0.00 avg300=0.00 total=7000\n"
               "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
  system.process = absl::Milliseconds(70);
  system.clock = absl::Seconds(5);
  ASSERT_OK_AND_ASSIGN(const MachineCounters counters, system.Reader().Read());
  EXPECT_EQ(counters.boot_id, kBootId);
  EXPECT_EQ(counters.process, absl::Milliseconds(70));
  EXPECT_EQ(counters.clock, absl::Seconds(5));
  ASSERT_EQ(counters.processors.size(), 2u);
  // 100 + 20 + 30 + 1 + 2 ticks, 40, and these with 500 + 50.
  EXPECT_EQ(counters.processors.at(1), (ProcessorTime{.busy = absl::Milliseconds(1530),
                                                      .stolen = absl::Milliseconds(400),
                                                      .total = absl::Milliseconds(7430)}));
  EXPECT_EQ(counters.processors.at(3).busy, absl::Milliseconds(100));
  EXPECT_EQ(counters.throttled, absl::Microseconds(2500));
  EXPECT_EQ(counters.pressure, absl::Microseconds(7000));
}

TEST(MachineReader, ReadsControlGroupsOfTheFirstVersion) {
  FakeSystem system;
  system.Write("proc/stat", "cpu1 1 0 0 0 0 0 0 0\ncpu3 1 0 0 0 0 0 0 0\n");
  system.Write("proc/self/cgroup", "5:memory:/m\n4:cpuacct,cpu:/outside/of/the/container\n");
  // Inside a container its own group is the root.
  system.Write("sys/fs/cgroup/cpu/cpu.stat", "nr_throttled 4\nthrottled_time 9000\n");
  ASSERT_OK_AND_ASSIGN(const MachineCounters counters, system.Reader().Read());
  EXPECT_EQ(counters.throttled, absl::Nanoseconds(9000));
  EXPECT_FALSE(counters.pressure.has_value());
}

TEST(MachineReader, NamesTheProcessorWithoutCounters) {
  FakeSystem system;
  system.Write("proc/stat", "cpu0 1 0 0 0 0 0 0 0\ncpu1 1 0 0 0 0 0 0 0\n");
  EXPECT_THAT(system.Reader().Read().status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("processor 3")));
}

TEST(UseBetween, IsTheDifferenceOfTwoReadings) {
  FakeSystem system;
  const MachineReader reader = system.Reader();
  system.Write("proc/stat", "cpu1 100 0 0 100 0 0 0 0\ncpu3 0 0 0 0 0 0 0 0\n");
  ASSERT_OK_AND_ASSIGN(const MachineCounters before, reader.Read());
  // Two seconds later: processor 1 ran for 1.5 s, 3 for nothing.
  system.Write("proc/stat", "cpu1 250 0 0 150 0 0 0 0\ncpu3 0 0 0 200 0 0 0 0\n");
  system.clock += absl::Seconds(2);
  system.process += absl::Milliseconds(900);
  ASSERT_OK_AND_ASSIGN(const MachineCounters after, reader.Read());
  const RankMachineUse use = UseBetween(before, after);
  EXPECT_EQ(use.elapsed, absl::Seconds(2));
  EXPECT_EQ(use.process, absl::Milliseconds(900));
  EXPECT_EQ(use.processors.at(1).busy, absl::Milliseconds(1500));
  EXPECT_EQ(use.processors.at(1).total, absl::Seconds(2));
  EXPECT_FALSE(use.throttled.has_value());
  // (1.5 - 0.9) s of 2 processors times 2 s.
  const std::optional<MachineUse> combined = CombineUses({use});
  ASSERT_TRUE(combined.has_value());
  EXPECT_NEAR(combined->used_by_others, 0.15, 1e-12);
  EXPECT_TRUE(combined->IsBusy());
}

TEST(RankMachineUse, TravelsAsText) {
  RankMachineUse use = OnProcessor(3, 2.0, 0.5, 1.25, 0.125);
  use.pressure = absl::Nanoseconds(17);
  EXPECT_THAT(RankMachineUse::FromText(use.ToText()), IsOkAndHolds(use));
  for (const char* text :
       {"", "id 1 2 -", "id 1 2 - x", "id 1 2 - - 3 4 5", "id 1 2 - - 3 4 5 y"}) {
    EXPECT_THAT(RankMachineUse::FromText(text), StatusIs(absl::StatusCode::kInvalidArgument))
        << text;
  }
}

TEST(CombineUses, TakesTheRankThatOthersDisturbMost) {
  // Each rank has a processor of its own. Of the first 0.1 s of 10 s are others', of the second 4.
  const std::optional<MachineUse> use =
      CombineUses({OnProcessor(0, 10, 9.8, 9.9, 0), OnProcessor(1, 10, 5.5, 9.0, 0.5)});
  ASSERT_TRUE(use.has_value());
  EXPECT_NEAR(use->used_by_others, 0.4, 1e-12);
  EXPECT_NEAR(use->stolen, 0.05, 1e-12);
}

TEST(CombineUses, RanksThatShareProcessorsAreNoOthersToEachOther) {
  const RankMachineUse first = OnProcessor(0, 10, 4.9, 9.9, 0);
  RankMachineUse second = first;
  second.process = absl::Seconds(4.8);
  const std::optional<MachineUse> use = CombineUses({first, second});
  ASSERT_TRUE(use.has_value());
  // 9.9 - 4.9 - 4.8 of 10 seconds.
  EXPECT_NEAR(use->used_by_others, 0.02, 1e-12);
  EXPECT_FALSE(use->IsBusy());
  // The same processor of another machine is another one.
  second.boot_id = "other";
  EXPECT_NEAR(CombineUses({first, second})->used_by_others, 0.51, 1e-12);
}

TEST(CombineUses, RanksMeetThroughAThirdThatSharesWithBoth) {
  const RankMachineUse left = OnProcessor(0, 10, 3.0, 6.0, 0);
  const RankMachineUse right = OnProcessor(1, 10, 3.0, 6.0, 0);
  RankMachineUse both = left;
  both.process = absl::Seconds(6.0);
  both.processors.insert(*right.processors.begin());
  // All 12 s are those of the three ranks.
  EXPECT_NEAR(CombineUses({left, right, both})->used_by_others, 0.0, 1e-12);
  EXPECT_NEAR(CombineUses({left, both, right})->used_by_others, 0.0, 1e-12);
}

TEST(CombineUses, MarksRanksThatTheirQuotaStops) {
  RankMachineUse use = OnProcessor(0, 10, 5.0, 5.0, 0);
  use.throttled = absl::Seconds(5);
  use.pressure = absl::Seconds(2);
  const std::optional<MachineUse> combined = CombineUses({use});
  ASSERT_TRUE(combined.has_value());
  EXPECT_EQ(combined->used_by_others, 0.0);
  EXPECT_NEAR(*combined->throttled, 0.5, 1e-12);
  EXPECT_NEAR(*combined->pressure, 0.2, 1e-12);
  EXPECT_TRUE(combined->IsBusy());
}

TEST(CombineUses, SaysNothingOfWhatIsTooShortOrNotCounted) {
  EXPECT_FALSE(CombineUses({}).has_value());
  EXPECT_FALSE(CombineUses({OnProcessor(0, 0.9, 0.1, 0.9, 0)}).has_value());
  // Counters that stand still, as sandboxes show them.
  RankMachineUse still = OnProcessor(0, 10, 9, 0, 0);
  still.processors[0] = {};
  EXPECT_FALSE(CombineUses({still}).has_value());
  EXPECT_FALSE(CombineUses({OnProcessor(1, 10, 9, 9, 0), still}).has_value());
}

// Works until the machine's counters can be judged.
RankMachineUse WorkFor(const MachineReader& reader) {
  const absl::StatusOr<MachineCounters> before = reader.Read();
  EXPECT_OK(before);
  while (before.ok()) {
    Spin();
    const absl::StatusOr<MachineCounters> after = reader.Read();
    EXPECT_OK(after);
    if (!after.ok()) break;
    if (after->clock - before->clock >= kShortestMachineUse) return UseBetween(*before, *after);
  }
  return {};
}

// Whatever else runs here only adds to what others use.
TEST(MachineUse, SeesAnotherProcessOnTheProcessorOfThisOne) {
  cpu_set_t whole;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(whole), &whole), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int k = 0; k < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++k) {
    if (CPU_ISSET(k, &whole)) CPU_SET(k, &one);
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  {
    const BusyProcess other;
    ASSERT_TRUE(other.is_running());
    const MachineReader reader;
    const RankMachineUse use = WorkFor(reader);
    EXPECT_EQ(use.processors.size(), 1u);
    const std::optional<MachineUse> combined = CombineUses({use});
    ASSERT_TRUE(combined.has_value());
    // Two processes that never wait have about half each.
    EXPECT_GT(combined->used_by_others, kBusyMachineRatio);
    EXPECT_TRUE(combined->IsBusy());
  }
  EXPECT_EQ(::sched_setaffinity(0, sizeof(whole), &whole), 0);
}

}  // namespace
}  // namespace parplan
