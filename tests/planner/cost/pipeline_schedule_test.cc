#include "planner/cost/pipeline_schedule.h"

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/group_size_dice.h"

namespace parplan {
namespace {

constexpr Schedule kSchedules[] = {Schedule::kOneForwardOneBackward, Schedule::kGpipe};

std::vector<StageTimes> Even(int stage_count, double forward, double backward, double send = 0) {
  std::vector<StageTimes> stages(
      stage_count, {Seconds::Of(forward), Seconds::Of(backward), Seconds::Of(send), Seconds()});
  stages.back().send = Seconds();
  return stages;
}

TEST(StepTime, OfOneStageIsItsWork) {
  for (Schedule schedule : kSchedules) {
    EXPECT_DOUBLE_EQ(StepTime(schedule, Even(1, 1, 2), 5).value(), 15.0);
  }
}

TEST(StepTime, OfEvenStagesIsTheClosedForm) {
  // (m + P - 1) * (f + b), for both schedules (papers.md 2.3).
  for (Schedule schedule : kSchedules) {
    for (int stages : {2, 3, 4, 8}) {
      for (int64_t m : {1, 2, 5, 8, 32}) {
        EXPECT_DOUBLE_EQ(StepTime(schedule, Even(stages, 1, 2), m).value(),
                         3.0 * static_cast<double>(m + stages - 1))
            << stages << " stages, " << m << " micro-batches";
      }
    }
  }
}

TEST(StepTime, ChargesASlowMiddleStage) {
  // The public engine's formula gives 12.0 here (galvatron.md 7.2); simulated
  // with a third of the time forward it is 17.67: 8 times the slow stage, once
  // through the others.
  std::vector<StageTimes> stages;
  for (double time : {1.0, 2.0, 1.0, 1.0}) {
    stages.push_back({Seconds::Of(time / 3), Seconds::Of(time * 2 / 3), Seconds(), Seconds()});
  }
  EXPECT_NEAR(StepTime(Schedule::kOneForwardOneBackward, stages, 8).value(), 17.7, 0.7);
}

TEST(StepTime, HidesSendingBetweenManyMicroBatchesOnlyInGpipe) {
  // GPipe streams: one way forward and one way back through 3 boundaries.
  EXPECT_DOUBLE_EQ(StepTime(Schedule::kGpipe, Even(4, 1, 1, 0.5), 16).value(), 2 * 19 + 6 * 0.5);
  EXPECT_GE(StepTime(Schedule::kOneForwardOneBackward, Even(4, 1, 1, 0.5), 16).value(),
            2 * 19 + 6 * 0.5);
}

TEST(StepTime, WaitsForTheGradientSynchronisationThatEndsLast) {
  std::vector<StageTimes> stages = Even(2, 1, 2);
  stages[1].gradient_sync = Seconds::Of(2.5);
  // Stage 1 ends 2 s before stage 0, so 0.5 s of it shows.
  EXPECT_DOUBLE_EQ(StepTime(Schedule::kOneForwardOneBackward, stages, 4).value(), 15.5);
}

// Every order and kind of message.
std::vector<PipelineRules> AllRules() {
  std::vector<PipelineRules> all;
  for (bool blocking : {false, true}) {
    all.push_back({.schedule = Schedule::kGpipe, .blocking_messages = blocking});
    for (bool serial : {false, true}) {
      all.push_back({.schedule = Schedule::kOneForwardOneBackward,
                     .blocking_messages = blocking,
                     .serial_messages = serial});
    }
    for (int chunks : {1, 2, 3}) {
      all.push_back({.schedule = Schedule::kInterleaved,
                     .virtual_stage_count = chunks,
                     .blocking_messages = blocking});
    }
  }
  return all;
}

std::vector<StageTimes> RandomTimes(int count, std::mt19937_64& random) {
  std::uniform_real_distribution<double> time(0.1, 2.0);
  std::vector<StageTimes> stages;
  for (int j = 0; j < count; ++j) {
    stages.push_back({Seconds::Of(time(random)), Seconds::Of(time(random)),
                      Seconds::Of(0.2 * time(random)), Seconds()});
  }
  return stages;
}

TEST(StepTime, OfOneMicroBatchIsTheSum) {
  std::mt19937_64 random(1);
  for (const PipelineRules& rules : AllRules()) {
    for (int devices : {2, 3, 5}) {
      const std::vector<StageTimes> stages =
          RandomTimes(devices * rules.virtual_stage_count, random);
      double sum = 0.0;
      for (size_t j = 0; j < stages.size(); ++j) {
        sum += (stages[j].forward + stages[j].backward).value();
        if (j + 1 < stages.size()) sum += 2.0 * stages[j].send.value();
      }
      EXPECT_NEAR(StepTime(rules, stages, 1).value(), sum, 1e-12 * sum);
    }
  }
}

TEST(StepTime, OfEvenVirtualStagesHasABubbleSmallerByTheirNumber) {
  // m (f + b) + (P - 1) (f + b) / V (Narayanan et al., 2.2.2).
  for (int devices : {2, 4, 8}) {
    for (int chunks : {1, 2, 3, 6}) {
      for (int64_t groups : {1, 2, 7, 400}) {
        const double m = static_cast<double>(groups * devices);
        const PipelineRules rules = {.schedule = Schedule::kInterleaved,
                                     .virtual_stage_count = chunks};
        const double whole = 3.0 * chunks * m + 3.0 * (devices - 1);
        EXPECT_NEAR(StepTime(rules, Even(devices * chunks, 1, 2), groups * devices).value(), whole,
                    1e-12 * whole)
            << devices << " devices, " << chunks << " chunks, " << groups << " groups";
      }
    }
  }
}

// The same with groups of any size, if messages take no time.
TEST(StepTime, OfEvenVirtualStagesDoesNotDependOnTheSizeOfGroups) {
  std::mt19937_64 random(12);
  for (int trial = 0; trial < 300; ++trial) {
    const int devices = 2 + static_cast<int>(random() % 5);
    const int chunks = 2 + static_cast<int>(random() % 3);
    const int64_t m = devices + static_cast<int64_t>(random() % 60);
    PipelineRules rules = {.schedule = Schedule::kInterleaved, .virtual_stage_count = chunks};
    rules.micro_batch_group_size = DrawGroupSize(devices, chunks, m, random);
    if (rules.micro_batch_group_size == 0 && m % devices != 0) continue;
    const double whole = 3.0 * chunks * static_cast<double>(m) + 3.0 * (devices - 1);
    EXPECT_NEAR(StepTime(rules, Even(devices * chunks, 1, 2), m).value(), whole, 1e-12 * whole)
        << devices << " devices, " << chunks << " chunks, " << m << " micro-batches in groups of "
        << rules.micro_batch_group_size;
  }
}

// Two devices with two chunks each, f = b = 1, messages of 1, all four micro-batches in one group.
// Device 0: F0 0-4, then chunk 2, whose first message comes from device 1 at 4 (F1 2-3, sent by 4),
// 4-6; device 1: F1 2-6, chunk 3 from 6 on (message of device 0 at 6), F3 6-7. So device 0 never
// waits for a message forward; with groups of two it waits from 2 to 4.
TEST(StepTime, OfLargerGroupsGivesMessagesTimeToTravel) {
  const std::vector<StageTimes> stages = Even(4, 1, 1, 1);
  PipelineRules rules = {.schedule = Schedule::kInterleaved, .virtual_stage_count = 2};
  const double small = StepTime(rules, stages, 4).value();
  rules.micro_batch_group_size = 4;
  EXPECT_LT(StepTime(rules, stages, 4).value(), small);
  std::vector<double> starts;
  for (const PipelineEvent& event : PipelineEvents(rules, stages, 4)) {
    if (event.stage_index % 2 == 0 && !event.is_backward) starts.push_back(event.start.value());
  }
  EXPECT_EQ(std::vector<double>(starts.begin(), starts.begin() + 6),
            (std::vector<double>{0, 1, 2, 3, 4, 5}));
}

TEST(StepTime, OfABlockingPipelineByHand) {
  // f = 2, b = 3, send = 1, two stages. Stage 0: F0 0-2, sends -3, F1 3-5, waits for
  // stage 1's B0 (F0 3-5, B0 5-8) and exchanges F1 for B0 at 8-9, B0 9-12; stage 1:
  // F1 9-11, B1 11-14, sends 14-15; stage 0: B1 15-18.
  const std::vector<StageTimes> stages = Even(2, 2, 3, 1);
  EXPECT_DOUBLE_EQ(StepTime({.blocking_messages = true}, stages, 2).value(), 18.0);
  // Not blocking, F1 comes to stage 1 at 5 already: F1 8-10, B1 10-13, B1 of stage 0 14-17.
  EXPECT_DOUBLE_EQ(StepTime(PipelineRules(), stages, 2).value(), 17.0);
}

// DeepSpeed's instructions: the same step, but B0 follows F1, at 9-10, and stage 1 begins F1 at 10.
TEST(StepTime, OfSerialMessagesByHand) {
  const std::vector<StageTimes> stages = Even(2, 2, 3, 1);
  EXPECT_DOUBLE_EQ(
      StepTime({.blocking_messages = true, .serial_messages = true}, stages, 2).value(), 19.0);
  // Nothing travels both ways at once.
  EXPECT_DOUBLE_EQ(
      StepTime({.blocking_messages = true, .serial_messages = true}, stages, 1).value(),
      StepTime({.blocking_messages = true}, stages, 1).value());
  // Messages that block nobody are not in each other's way.
  EXPECT_DOUBLE_EQ(StepTime({.serial_messages = true}, stages, 2).value(), 17.0);
}

TEST(StepTime, OfSerialMessagesIsNoShorterAndAtMostThatOfMessagesTwiceAsLong) {
  std::mt19937_64 random(12);
  for (const int devices : {1, 2, 5}) {
    for (const int64_t m : {1, 3, 40, 300}) {
      std::vector<StageTimes> stages = RandomTimes(devices, random);
      const PipelineRules serial = {.blocking_messages = true, .serial_messages = true};
      const double step = StepTime(serial, stages, m).value();
      EXPECT_GE(step * (1 + 1e-12), StepTime({.blocking_messages = true}, stages, m).value());
      double end = 0.0;
      for (const PipelineEvent& event : PipelineEvents(serial, stages, m)) {
        const Seconds sync = stages[event.stage_index].gradient_sync;
        end = std::max(end, (event.end + sync).value());
      }
      EXPECT_NEAR(end, step, 1e-12 * step);
      for (StageTimes& stage : stages) stage.send = stage.send * 2.0;
      EXPECT_LE(step, StepTime({.blocking_messages = true}, stages, m).value() * (1 + 1e-12));
    }
  }
}

TEST(StepTime, OfABlockingPipelineIsNoShorter) {
  std::mt19937_64 random(2);
  for (PipelineRules rules : AllRules()) {
    if (!rules.blocking_messages) continue;
    for (int64_t m : {1, 4, 8, 100}) {
      const std::vector<StageTimes> stages = RandomTimes(4 * rules.virtual_stage_count, random);
      rules.blocking_messages = true;
      const Seconds blocking = StepTime(rules, stages, m);
      rules.blocking_messages = false;
      EXPECT_GE(blocking.value() * (1 + 1e-12), StepTime(rules, stages, m).value());
    }
  }
}

TEST(StepTime, IsTheSameBackInTime) {
  // Played backwards, forward passes are backward passes and the order is the same.
  std::mt19937_64 random(3);
  for (const PipelineRules& rules : AllRules()) {
    for (int devices : {1, 2, 4, 7}) {
      for (int64_t groups : {1, 2, 5, 60}) {
        std::vector<StageTimes> stages = RandomTimes(devices * rules.virtual_stage_count, random);
        const double there = StepTime(rules, stages, groups * devices).value();
        for (StageTimes& stage : stages) std::swap(stage.forward, stage.backward);
        EXPECT_NEAR(StepTime(rules, stages, groups * devices).value(), there, 1e-12 * there)
            << static_cast<int>(rules.schedule) << " " << rules.virtual_stage_count << " "
            << rules.blocking_messages << " " << devices << " " << groups;
      }
    }
  }
}

TEST(StepTime, OfGpipeDoesNotDependOnTheOrderOfStages) {
  std::mt19937_64 random(4);
  std::vector<StageTimes> stages = RandomTimes(5, random);
  for (StageTimes& stage : stages) stage.send = Seconds::Of(0.125);
  const double step = StepTime(Schedule::kGpipe, stages, 9).value();
  for (int trial = 0; trial < 20; ++trial) {
    std::shuffle(stages.begin(), stages.end(), random);
    EXPECT_NEAR(StepTime(Schedule::kGpipe, stages, 9).value(), step, 1e-12 * step);
  }
}

TEST(StepTime, OfGpipeDoesNotChangeByAnEmptyStage) {
  std::mt19937_64 random(5);
  std::vector<StageTimes> stages = RandomTimes(4, random);
  const double step = StepTime(Schedule::kGpipe, stages, 9).value();
  stages.insert(stages.begin() + 2, StageTimes());
  EXPECT_NEAR(StepTime(Schedule::kGpipe, stages, 9).value(), step, 1e-12 * step);
}

TEST(StepTime, NeverFallsWhenAnythingTakesLonger) {
  std::mt19937_64 random(6);
  for (const PipelineRules& rules : AllRules()) {
    for (int trial = 0; trial < 40; ++trial) {
      const int devices = 1 + static_cast<int>(random() % 6);
      const int64_t m = 1 + static_cast<int64_t>(random() % 60);
      std::vector<StageTimes> stages = RandomTimes(devices * rules.virtual_stage_count, random);
      const double step = StepTime(rules, stages, m).value();
      StageTimes& stage = stages[random() % stages.size()];
      Seconds* const parts[] = {&stage.forward, &stage.backward, &stage.send, &stage.gradient_sync};
      *parts[random() % 4] += Seconds::Of(0.3);
      EXPECT_GE(StepTime(rules, stages, m).value(), step * (1 - 1e-12));
    }
  }
}

TEST(StepTime, HidesTheSynchronisationOfEarlierChunks) {
  std::vector<StageTimes> stages = Even(4, 1, 2);
  for (StageTimes& stage : stages) stage.gradient_sync = Seconds::Of(1);
  PipelineRules rules = {.schedule = Schedule::kInterleaved, .virtual_stage_count = 2};
  const double late = StepTime(rules, stages, 8).value();
  rules.early_gradient_sync = true;
  // The chunk of device 0 that ends last is the first; the second ended long before.
  EXPECT_DOUBLE_EQ(StepTime(rules, stages, 8).value(), late - 1.0);
}

TEST(StepTime, OfAnyGroupsIsTheEndOfTheLastOfItsEvents) {
  std::mt19937_64 random(13);
  for (int trial = 0; trial < 400; ++trial) {
    const int devices = 2 + static_cast<int>(random() % 5);
    PipelineRules rules = {.schedule = Schedule::kInterleaved,
                           .virtual_stage_count = 2 + static_cast<int>(random() % 3),
                           .blocking_messages = trial % 3 == 0};
    const int64_t m = 1 + static_cast<int64_t>(random() % (trial % 10 == 0 ? 700 : 50));
    rules.micro_batch_group_size = DrawGroupSize(devices, rules.virtual_stage_count, m, random);
    const std::vector<StageTimes> stages = RandomTimes(devices * rules.virtual_stage_count, random);
    Seconds end;
    for (const PipelineEvent& event : PipelineEvents(rules, stages, m)) {
      end = std::max(end, event.end);
    }
    EXPECT_NEAR(StepTime(rules, stages, m).value(), end.value(), 1e-12 * end.value())
        << devices << " devices, " << rules.virtual_stage_count << " chunks, " << m
        << " micro-batches in groups of " << rules.micro_batch_group_size;
  }
}

TEST(StepTime, IsTheEndOfTheLastOfItsEvents) {
  std::mt19937_64 random(7);
  for (const PipelineRules& rules : AllRules()) {
    for (int64_t m : {1, 3, 7, 12, 30, 333}) {
      const std::vector<StageTimes> stages = RandomTimes(4 * rules.virtual_stage_count, random);
      Seconds end;
      for (const PipelineEvent& event : PipelineEvents(rules, stages, m)) {
        end = std::max(end, event.end);
      }
      EXPECT_NEAR(StepTime(rules, stages, m).value(), end.value(), 1e-12 * end.value());
    }
  }
}

TEST(ScheduleEvaluator, GivesTheSameWhateverItDidBefore) {
  std::mt19937_64 random(8);
  ScheduleEvaluator evaluator;
  for (int trial = 0; trial < 200; ++trial) {
    const std::vector<PipelineRules> all = AllRules();
    const PipelineRules& rules = all[random() % all.size()];
    const int devices = 1 + static_cast<int>(random() % 6);
    const int64_t m = 1 + static_cast<int64_t>(random() % 100);
    const std::vector<StageTimes> stages = RandomTimes(devices * rules.virtual_stage_count, random);
    EXPECT_EQ(evaluator.StepTime(rules, stages, m), StepTime(rules, stages, m));
  }
}

TEST(ScheduleEvaluator, GoesOnEvenlyThroughMicroBatchesWithoutNumber) {
  // Twice as many micro-batches more, twice as much time more.
  std::mt19937_64 random(9);
  for (const PipelineRules& rules : AllRules()) {
    const std::vector<StageTimes> stages = RandomTimes(4 * rules.virtual_stage_count, random);
    const double few = StepTime(rules, stages, 1200).value();
    const double more = StepTime(rules, stages, 2400).value();
    const double many = StepTime(rules, stages, 1200 + 1200 * 1000).value();
    EXPECT_NEAR(many - few, 1000 * (more - few), 1e-9 * many);
  }
}

class RandomStages : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    std::mt19937 random(GetParam());
    std::uniform_real_distribution<double> time(0.1, 2.0);
    const int count = 1 + GetParam() % 6;
    for (int i = 0; i < count; ++i) {
      stages_.push_back({Seconds::Of(time(random)), Seconds::Of(time(random)),
                         i + 1 < count ? Seconds::Of(0.1 * time(random)) : Seconds(),
                         Seconds::Of(time(random))});
    }
    micro_batch_count_ = 1 + GetParam() % 9;
  }
  std::vector<StageTimes> stages_;
  int64_t micro_batch_count_ = 1;
};

TEST_P(RandomStages, EveryEventComesAfterWhatItWaitsFor) {
  for (Schedule schedule : kSchedules) {
    const std::vector<PipelineEvent> events = PipelineEvents(schedule, stages_, micro_batch_count_);
    ASSERT_EQ(events.size(), 2 * stages_.size() * static_cast<size_t>(micro_batch_count_));
    std::map<std::pair<int, int64_t>, Seconds> forward_end;
    std::map<std::pair<int, int64_t>, Seconds> backward_end;
    for (const PipelineEvent& event : events) {
      (event.is_backward ? backward_end
                         : forward_end)[{event.stage_index, event.micro_batch_index}] = event.end;
    }
    const int last = static_cast<int>(stages_.size()) - 1;
    for (const PipelineEvent& event : events) {
      const int i = event.stage_index;
      const int64_t k = event.micro_batch_index;
      if (!event.is_backward && i > 0) {
        EXPECT_GE(event.start, forward_end.at({i - 1, k}) + stages_[i - 1].send);
      }
      if (event.is_backward) {
        EXPECT_GE(event.start, forward_end.at({i, k}));
        if (i < last) {
          EXPECT_GE(event.start, backward_end.at({i + 1, k}) + stages_[i].send);
        }
      }
    }
    for (size_t e = 1; e < events.size(); ++e) {
      if (events[e].stage_index == events[e - 1].stage_index) {
        EXPECT_GE(events[e].start, events[e - 1].end) << "a stage does one thing at a time";
      }
    }
  }
}

TEST_P(RandomStages, NoStageKeepsMoreMicroBatchesThanItsMemoryAllows) {
  const int stage_count = static_cast<int>(stages_.size());
  for (Schedule schedule : kSchedules) {
    for (int stage = 0; stage < stage_count; ++stage) {
      int64_t kept = 0;
      int64_t most = 0;
      for (const PipelineEvent& event : PipelineEvents(schedule, stages_, micro_batch_count_)) {
        if (event.stage_index != stage) continue;
        kept += event.is_backward ? -1 : 1;
        most = std::max(most, kept);
      }
      EXPECT_EQ(most, InFlightMicroBatchCount(schedule, stage_count, stage, micro_batch_count_));
    }
  }
}

TEST_P(RandomStages, IsNoFasterThanItsBusiestStageAndAFasterStageNeverSlows) {
  for (Schedule schedule : kSchedules) {
    const Seconds step = StepTime(schedule, stages_, micro_batch_count_);
    for (size_t i = 0; i < stages_.size(); ++i) {
      EXPECT_GE(step.value(), ((stages_[i].forward + stages_[i].backward) *
                                   static_cast<double>(micro_batch_count_) +
                               stages_[i].gradient_sync)
                                      .value() -
                                  1e-9);
      std::vector<StageTimes> faster = stages_;
      faster[i].forward = faster[i].forward * 0.5;
      faster[i].send = faster[i].send * 0.5;
      EXPECT_LE(StepTime(schedule, faster, micro_batch_count_).value(), step.value() + 1e-9);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomStages, testing::Range(0, 60));

}  // namespace
}  // namespace parplan
