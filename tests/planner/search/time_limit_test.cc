// Every planner asks its caller often whether to go on, whatever the question: then a search is
// over soon after its time.

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "absl/time/time.h"
#include "base/system/worker_threads.h"
#include "planner/find_plan.h"
#include "tests/support/large_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// Processor time between two questions, at most. On 2 cores of an AMD EPYC most searches take up to
// 20 ms, and those of 998 different layers 170 to 400 ms, since a table of their options or a
// balance of their memory is made in one go; the rest is for slower machines. Before all loops
// asked it was 1.3 s in the space without `end-strategies`, and 7.5 s for three kinds of layers
// that choose together.
constexpr absl::Duration kLongest = absl::Milliseconds(900);
// Processor time after which a search is told to end, so that the test ends.
constexpr absl::Duration kPatience = absl::Milliseconds(700);

// Returns the longest processor time of one search in which it did not ask whether to go on.
absl::Duration LongestSilenceOnce(const PlanningProblem& problem, const std::string& planner) {
  const absl::Duration start = ThreadCpuTime();
  absl::Duration last = start;
  absl::Duration longest;
  const auto note = [&] {
    const absl::Duration now = ThreadCpuTime();
    longest = std::max(longest, now - last);
    last = now;
  };
  SearchControl control;
  control.should_stop = [&] {
    note();
    return last - start > kPatience;
  };
  const absl::StatusOr<PlanningResult> result = FindPlan(problem, planner, control);
  note();
  // Some questions have no answer under some planners.
  EXPECT_TRUE(result.ok() || result.status().code() == absl::StatusCode::kFailedPrecondition)
      << result.status();
  return longest;
}

// Returns the same of the best of up to three searches. Searches of one question do the same work,
// so what is longer in some of them is the machine's: a host that runs something else meanwhile
// counts in a guest's processor time.
absl::Duration LongestSilence(const PlanningProblem& problem, const std::string& planner) {
  absl::Duration longest = LongestSilenceOnce(problem, planner);
  for (int further = 0; further < 2 && longest >= kLongest; ++further) {
    longest = std::min(longest, LongestSilenceOnce(problem, planner));
  }
  return longest;
}

DimensionSet AllBut(std::initializer_list<SearchDimension> without) {
  DimensionSet dimensions = DimensionSet::All();
  for (const SearchDimension dimension : without) dimensions = dimensions.Without(dimension);
  return dimensions;
}

// Without strategies of their own for the ends, there is a layout for each sharding level.
TEST(TimeLimits, AreKeptWhereEndsFollowTheirNeighbours) {
  LargeOptions options;
  options.device_count = 128;
  options.device_memory = Bytes::Of(int64_t{12} << 30);
  options.runs = {{.layer_count = 8, .feed_forward_size = 8192},
                  {.layer_count = 32, .feed_forward_size = 8192, .expert_count = 16},
                  {.layer_count = 8, .feed_forward_size = 14336}};
  options.rules.dimensions = AllBut({SearchDimension::kEndStrategies});
  EXPECT_LT(LongestSilence(LargeProblem(options), "exact"), kLongest);
}

// Where all layers of a definition have one strategy, masks are all combinations of strategies of
// several definitions, here more than can be listed.
TEST(TimeLimits, AreKeptWhereKindsOfLayersChooseTogether) {
  LargeOptions options;
  options.device_count = 1024;
  options.global_batch_size = 8192;
  options.runs = {
      {.layer_count = 3, .feed_forward_size = 18432},
      {.layer_count = 58, .feed_forward_size = 8192, .expert_count = 256},
      {.layer_count = 1, .feed_forward_size = 8192, .expert_count = 256, .prediction_depth = 1}};
  for (const bool has_ends : {true, false}) {
    options.rules.dimensions =
        has_ends ? AllBut({SearchDimension::kPerLayer})
                 : AllBut({SearchDimension::kPerLayer, SearchDimension::kEndStrategies});
    EXPECT_LT(LongestSilence(LargeProblem(options), "exact"), kLongest);
  }
  options.rules.dimensions = DimensionSet::All();
  options.rules.target = Target::kMegatron;
  EXPECT_LT(LongestSilence(LargeProblem(options), "exact"), kLongest);
}

// A table of options takes half a second, and so do the menus made from it.
TEST(TimeLimits, AreKeptWhereAllLayersDiffer) {
  LargeOptions options;
  options.device_count = 1024;
  options.global_batch_size = 2048;
  options.hidden_size = 2048;
  options.attention_head_count = 16;
  options.key_value_head_count = 16;
  options.runs = DifferentLayers(998);
  for (const std::string planner : {"exact", "galvatron-bmw", "megatron", "deepspeed-3d"}) {
    EXPECT_LT(LongestSilence(LargeProblem(options), planner), kLongest) << planner;
  }
}

TEST(TimeLimits, AreKeptByEveryPlannerOnAnyProblem) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    LargeOptions options = RandomLargeOptions(seed, /*max_layer_count=*/256,
                                              /*max_device_count=*/1024);
    // A dimension is missing now and then.
    const auto missing = static_cast<SearchDimension>(seed * 7 % kSearchDimensionCount);
    options.rules.dimensions = DimensionSet::All().Without(missing);
    const PlanningProblem problem = LargeProblem(options);
    for (const std::string& planner : PlannerNames()) {
      EXPECT_LT(LongestSilence(problem, planner), kLongest) << planner << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace parplan
