// Averages of paths against simulated schedules.

#include "planner/planners/exact/pipeline/path_counts.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "planner/cost/pipeline_schedule.h"

namespace parplan {
namespace {

double Draw(std::mt19937_64& random, double least, double most) {
  return std::uniform_real_distribution<double>(least, most)(random);
}

class PathCountsTest : public testing::TestWithParam<Schedule> {};

// Whatever rates paths are balanced for, no pipeline is faster than their average.
TEST_P(PathCountsTest, AverageIsNeverAboveTheSimulatedStep) {
  constexpr uint64_t kSeed = 17;
  std::mt19937_64 random(kSeed);
  for (int trial = 0; trial < 20000; ++trial) {
    const int depth = std::uniform_int_distribution<int>(1, 9)(random);
    const int64_t count = std::uniform_int_distribution<int64_t>(1, 25)(random);
    const double spread = trial % 3 == 0 ? 0.05 : trial % 3 == 1 ? 1.0 : 10.0;
    std::vector<StageTimes> stages;
    std::vector<LayerRate> rates;
    for (int stage = 0; stage < depth; ++stage) {
      stages.push_back({Seconds::Of(1.0 + Draw(random, 0.0, spread)),
                        Seconds::Of(2.0 + Draw(random, 0.0, spread)),
                        Seconds::Of(Draw(random, 0.0, trial % 2 == 0 ? 0.2 : 5.0)),
                        Seconds::Of(Draw(random, 0.0, 20.0))});
      rates.push_back({1.0 + Draw(random, 0.0, spread),
                       trial % 5 == 0 ? Draw(random, 0.0, 10.0 * spread) : 0.0});
    }
    const SuffixRecurrence recurrence(GetParam(), depth, count);
    const PathCounts counts = BalancePaths(recurrence, rates);
    double average = stages.front().gradient_sync.value();
    for (int stage = 0; stage < depth; ++stage) {
      average += counts.passes[stage] * (stages[stage].forward + stages[stage].backward).value() +
                 counts.messages[stage] * 2.0 * stages[stage].send.value();
    }
    const double step = StepTime(PipelineRules{.schedule = GetParam()}, stages, count).value();
    ASSERT_LE(average, step * (1.0 + 1e-11))
        << "seed " << kSeed << " trial " << trial << ": P " << depth << " m " << count;
  }
}

// With more micro-batches than stages the average is the step itself where all stages are alike.
TEST_P(PathCountsTest, AverageOfEqualStagesIsTheirStep) {
  for (int depth = 1; depth <= 20; ++depth) {
    for (const int64_t count : {depth + 1, 2 * depth, 5 * depth + 3}) {
      SCOPED_TRACE(absl::StrCat("P ", depth, " m ", count));
      const SuffixRecurrence recurrence(GetParam(), depth, count);
      const PathCounts counts = BalancePaths(recurrence, std::vector<LayerRate>(depth));
      double average = 0.0;
      for (const double passes : counts.passes) average += passes * 3.0;
      const std::vector<StageTimes> stages(depth, {Seconds::Of(1.0), Seconds::Of(2.0)});
      const double step = StepTime(PipelineRules{.schedule = GetParam()}, stages, count).value();
      EXPECT_NEAR(average, step, 1e-9 * step);
    }
  }
}

// The rates equal what passes give, if no path would need a negative weight.
TEST_P(PathCountsTest, LayersAddAsMuchInEveryStage) {
  constexpr uint64_t kSeed = 19;
  std::mt19937_64 random(kSeed);
  for (int trial = 0; trial < 200; ++trial) {
    const int depth = std::uniform_int_distribution<int>(2, 40)(random);
    const SuffixRecurrence recurrence(GetParam(), depth, 4 * depth);
    std::vector<LayerRate> rates;
    for (int stage = 0; stage < depth; ++stage) {
      rates.push_back({1.0 + Draw(random, 0.0, 0.02), stage == 0 ? Draw(random, 0.0, 0.5) : 0.0});
    }
    const PathCounts counts = BalancePaths(recurrence, rates);
    const double first = counts.passes[0] * rates[0].per_pass + rates[0].besides;
    for (int stage = 1; stage < depth; ++stage) {
      EXPECT_NEAR(counts.passes[stage] * rates[stage].per_pass + rates[stage].besides, first,
                  1e-9 * first)
          << "seed " << kSeed << " trial " << trial << " stage " << stage << " of " << depth;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, PathCountsTest,
                         testing::Values(Schedule::kOneForwardOneBackward, Schedule::kGpipe),
                         [](const auto& info) {
                           return info.param == Schedule::kGpipe ? "Gpipe"
                                                                 : "OneForwardOneBackward";
                         });

}  // namespace
}  // namespace parplan
