#include "planner/cost/pipeline_schedule.h"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

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
    const std::vector<PipelineEvent> events =
        PipelineEvents(schedule, stages_, micro_batch_count_);
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
      EXPECT_GE(step.value(),
                ((stages_[i].forward + stages_[i].backward) *
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
