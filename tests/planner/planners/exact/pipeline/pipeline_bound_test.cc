#include "planner/planners/exact/pipeline/pipeline_bound.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "planner/cost/pipeline_schedule.h"

namespace parplan {
namespace {

// Stages that are equal, or up to ten times as long as each other, in whole units so that
// sums are exact; some free, some with messages longer than passes.
std::vector<StageTimes> RandomStages(std::mt19937_64& random, int depth) {
  const auto draw = [&random](int most) {
    return Seconds::Of(std::uniform_int_distribution<int>(0, most)(random));
  };
  const int spread = std::uniform_int_distribution<int>(0, 2)(random);
  const int sends = std::uniform_int_distribution<int>(0, 2)(random);
  const StageTimes usual = {draw(10), draw(20), Seconds(), draw(30)};
  std::vector<StageTimes> stages;
  for (int i = 0; i < depth; ++i) {
    StageTimes stage = usual;
    if (spread > 0) {
      stage = {draw(10), spread > 1 ? draw(20) : usual.backward, Seconds(), draw(100)};
    }
    if (sends > 0) stage.send = draw(sends == 1 ? 2 : 20);
    stages.push_back(stage);
  }
  return stages;
}

std::string Describe(const std::vector<StageTimes>& stages, int64_t count) {
  std::string text = absl::StrCat("m ", count);
  for (const StageTimes& stage : stages) {
    absl::StrAppend(&text, " | ", stage.forward.value(), " ", stage.backward.value(), " ",
                    stage.send.value(), " ", stage.gradient_sync.value());
  }
  return text;
}

class PipelineBoundTest : public testing::TestWithParam<Schedule> {};

TEST_P(PipelineBoundTest, IsNeverAboveTheSimulatedStep) {
  constexpr uint64_t kSeed = 20261121;
  std::mt19937_64 random(kSeed);
  int64_t equal = 0;
  constexpr int kTrials = 20000;
  for (int trial = 0; trial < kTrials; ++trial) {
    const int depth = std::uniform_int_distribution<int>(1, 9)(random);
    const int64_t count = std::uniform_int_distribution<int64_t>(1, 25)(random);
    const std::vector<StageTimes> stages = RandomStages(random, depth);
    const double bound = PipelineStepBound(GetParam(), stages, count).value();
    for (const auto& [blocking, serial] :
         {std::pair(false, false), std::pair(true, false), std::pair(true, true)}) {
      const PipelineRules rules = {
          .schedule = GetParam(), .blocking_messages = blocking, .serial_messages = serial};
      const double step = StepTime(rules, stages, count).value();
      ASSERT_LE(bound, step * (1.0 + 1e-12))
          << "seed " << kSeed << " trial " << trial << ": " << Describe(stages, count);
      if (!blocking && bound >= step * (1.0 - 1e-12)) ++equal;
    }
  }
  // Messages are random, often longer than passes; the case without messages is below.
  const double share = static_cast<double>(equal) / kTrials;
  RecordProperty("equal_share", std::to_string(share));
  if (GetParam() == Schedule::kGpipe) {
    EXPECT_EQ(equal, kTrials);
  } else {
    EXPECT_GE(share, 0.6);
  }
}

// The bound equals the step if messages take no time and stages are about alike, or if all stages
// are alike with messages.
TEST_P(PipelineBoundTest, IsTheSimulatedStepOfUsualPipelines) {
  constexpr uint64_t kSeed = 5;
  std::mt19937_64 random(kSeed);
  for (int trial = 0; trial < 5000; ++trial) {
    const int depth = std::uniform_int_distribution<int>(1, 12)(random);
    const int64_t count = std::uniform_int_distribution<int64_t>(1, 60)(random);
    std::vector<StageTimes> stages = RandomStages(random, depth);
    if (trial % 2 == 0) {
      for (StageTimes& stage : stages) {
        stage.forward += Seconds::Of(200);
        stage.backward += Seconds::Of(400);
        stage.send = Seconds();
      }
    } else {
      const Seconds sync = stages.back().gradient_sync;
      stages.assign(depth, {Seconds::Of(3), Seconds::Of(6), Seconds::Of(trial % 3), sync});
    }
    const double step = StepTime(PipelineRules{.schedule = GetParam()}, stages, count).value();
    ASSERT_NEAR(PipelineStepBound(GetParam(), stages, count).value(), step, 1e-9 * step)
        << "seed " << kSeed << " trial " << trial << ": " << Describe(stages, count);
  }
}

TEST_P(PipelineBoundTest, IsMonotoneInWhatIsBehind) {
  constexpr uint64_t kSeed = 7;
  std::mt19937_64 random(kSeed);
  for (int trial = 0; trial < 5000; ++trial) {
    const int depth = std::uniform_int_distribution<int>(2, 8)(random);
    const int64_t count = std::uniform_int_distribution<int64_t>(1, 20)(random);
    const SuffixRecurrence recurrence(GetParam(), depth, count);
    SuffixTimes less = {};
    SuffixTimes more = {};
    for (size_t k = 0; k < less.size(); ++k) {
      less[k] = std::uniform_real_distribution<double>(0.0, 50.0)(random);
      more[k] = less[k] + std::uniform_int_distribution<int>(0, 1)(random) * 5.0;
    }
    ASSERT_TRUE(recurrence.Dominates(less, more));
    const int stage = std::uniform_int_distribution<int>(0, depth - 2)(random);
    const StageTimes before = RandomStages(random, 1).front();
    const SuffixTimes joined_less = recurrence.Before(stage, before, less);
    const SuffixTimes joined_more = recurrence.Before(stage, before, more);
    EXPECT_TRUE(recurrence.Dominates(joined_less, joined_more)) << "trial " << trial;
    EXPECT_LE(recurrence.End(joined_less), recurrence.End(joined_more)) << "trial " << trial;
  }
}

TEST_P(PipelineBoundTest, SpreadBoundIsNeverAboveAnySpread) {
  constexpr uint64_t kSeed = 11;
  std::mt19937_64 random(kSeed);
  for (int trial = 0; trial < 20000; ++trial) {
    const int depth = std::uniform_int_distribution<int>(1, 9)(random);
    const int64_t count = std::uniform_int_distribution<int64_t>(1, 25)(random);
    const std::vector<StageTimes> stages = RandomStages(random, depth);
    double total = 0.0;
    double longest = 0.0;
    for (const StageTimes& stage : stages) {
      const double way = (stage.forward + stage.backward).value();
      total += way;
      longest = std::max(longest, way);
    }
    const double step = StepTime(PipelineRules{.schedule = GetParam()}, stages, count).value();
    ASSERT_LE(SpreadStepBound(GetParam(), depth, count, total, longest), step * (1.0 + 1e-12))
        << "seed " << kSeed << " trial " << trial << ": " << Describe(stages, count);
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, PipelineBoundTest,
                         testing::Values(Schedule::kOneForwardOneBackward, Schedule::kGpipe),
                         [](const auto& info) {
                           return std::string(
                               info.param == Schedule::kGpipe ? "Gpipe" : "OneForwardOneBackward");
                         });

// A stage of which only the sum of both passes is known, and that its forward pass takes no less
// than some time: the search of partitions joins such stages where synchronisation takes long.
TEST(JoinedPipelineBound, IsNeverAboveTheSimulatedStep) {
  constexpr uint64_t kSeed = 20261127;
  std::mt19937_64 random(kSeed);
  const auto schedule = Schedule::kOneForwardOneBackward;
  int equal = 0;
  constexpr int kTrials = 20000;
  for (int trial = 0; trial < kTrials; ++trial) {
    const int depth = std::uniform_int_distribution<int>(2, 9)(random);
    const int64_t count = std::uniform_int_distribution<int64_t>(1, 25)(random);
    const std::vector<StageTimes> stages = RandomStages(random, depth);
    const SuffixRecurrence recurrence(schedule, depth, count);
    SuffixTimes times = {};
    for (int i = depth - 1; i >= 0; --i) {
      StageTimes joined = stages[i];
      joined.forward += joined.backward;
      joined.backward = Seconds();
      const int most = static_cast<int>(stages[i].forward.value());
      const double least_forward = std::uniform_int_distribution<int>(most / 2, most)(random);
      times = i == depth - 1 ? recurrence.LastStage(joined)
                             : recurrence.BeforeJoined(i, joined, least_forward, times);
    }
    const double step = StepTime(PipelineRules{.schedule = schedule}, stages, count).value();
    ASSERT_LE(recurrence.End(times), step * (1.0 + 1e-12))
        << "seed " << kSeed << " trial " << trial << ": " << Describe(stages, count);
    if (recurrence.End(times) >= step * (1.0 - 1e-12)) ++equal;
  }
  EXPECT_GT(equal, kTrials / 10);
}

// Two stages, two micro-batches, backward as long as forward: with 2/3 and 1/3 of the work
// the step is 4/3 of one micro-batch's, the bound; with even shares 3/2.
TEST(SpreadStepBound, FrontHeavyPipelinesAttainIt) {
  const auto stage = [](double way) {
    return StageTimes{Seconds::Of(way / 2.0), Seconds::Of(way / 2.0)};
  };
  const auto schedule = Schedule::kOneForwardOneBackward;
  const std::vector<StageTimes> front_heavy = {stage(4.0), stage(2.0)};
  const std::vector<StageTimes> even = {stage(3.0), stage(3.0)};
  EXPECT_DOUBLE_EQ(SpreadStepBound(schedule, 2, 2, 6.0, 3.0), 8.0);
  EXPECT_DOUBLE_EQ(StepTime(schedule, front_heavy, 2).value(), 8.0);
  EXPECT_DOUBLE_EQ(StepTime(schedule, even, 2).value(), 9.0);
}

// With more micro-batches than stages no pipeline of as much work is faster than the even one.
TEST(SpreadStepBound, EvenPipelinesOfManyMicroBatchesAttainIt) {
  const auto schedule = Schedule::kOneForwardOneBackward;
  for (int depth = 1; depth <= 9; ++depth) {
    for (int64_t count = depth + 1; count <= 40; ++count) {
      const StageTimes stage = {Seconds::Of(1.0), Seconds::Of(2.0)};
      const std::vector<StageTimes> even(depth, stage);
      const double step = StepTime(schedule, even, count).value();
      EXPECT_NEAR(SpreadStepBound(schedule, depth, count, 3.0 * depth, 3.0), step, 1e-12 * step)
          << depth << " stages, " << count << " micro-batches";
    }
  }
}

// With no more than stages the bound knows that some of them wait for the first round trip.
TEST(SpreadStepBound, IsNearEvenPipelinesOfAsManyMicroBatchesAsStages) {
  const auto schedule = Schedule::kOneForwardOneBackward;
  for (int depth = 2; depth <= 64; depth *= 2) {
    const std::vector<StageTimes> even(depth, {Seconds::Of(1.0), Seconds::Of(2.0)});
    const double step = StepTime(schedule, even, depth).value();
    const double bound = SpreadStepBound(schedule, depth, depth, 3.0 * depth, 3.0);
    EXPECT_LE(bound, step * (1.0 + 1e-12)) << depth << " stages";
    EXPECT_GE(bound, step * 0.88) << depth << " stages";
  }
}

}  // namespace
}  // namespace parplan
