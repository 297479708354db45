#include "planner/planners/exact/nested_spaces.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "planner/model/device_memory.h"
#include "tests/support/large_problem.h"
#include "tests/support/search_laws.h"

namespace parplan {
namespace {

// tests/benchmarks/search_laws.cc asks many more questions, of all sizes.
TEST(SearchNestedSpaces, NoSpaceOfTheFamilyHasAFasterPlan) {
  int open_count = 0;
  for (const uint64_t seed : {1, 6, 9, 10}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const LargeOptions options =
        RandomLargeOptions(seed, /*max_layer_count=*/32, /*max_device_count=*/128);
    const LawAnswer whole = AnswerOf(options);
    open_count += whole.is_proved ? 0 : 1;
    const std::vector<LesserQuestion> nested = NestedSpacesOf(options);
    EXPECT_EQ(nested.size(), 7u);
    for (const LesserQuestion& each : nested) {
      SCOPED_TRACE(each.name);
      EXPECT_LE(whole.per_sample, AnswerOf(each.options).per_sample * (1.0 + 1e-9));
    }
  }
  EXPECT_GT(open_count, 0);
}

// tests/studies/papers/grid_law_test.cc has questions for which this failed.
TEST(SearchNestedSpaces, MoreMemoryIsNeverSlower) {
  int open_count = 0;
  for (const uint64_t seed : {1, 2, 4, 9}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    LargeOptions options =
        RandomLargeOptions(seed, /*max_layer_count=*/16, /*max_device_count=*/16);
    double before = std::numeric_limits<double>::infinity();
    for (const int64_t gibibytes : {12, 16, 20, 24, 32}) {
      SCOPED_TRACE(testing::Message() << gibibytes << " GiB");
      options.device_memory = Bytes::Of(gibibytes << 30);
      const LawAnswer answer = AnswerOf(options);
      open_count += answer.is_proved ? 0 : 1;
      EXPECT_LE(answer.per_sample, before * (1.0 + 1e-9));
      before = answer.per_sample;
    }
  }
  EXPECT_GT(open_count, 0);
}

TEST(SearchNestedSpaces, VisitsEachSpaceOnceUnlessABoundClosesIt) {
  // More devices than are searched for less memory.
  const PlanningProblem problem = LargeProblem({.device_count = 128});
  const KindBounds open = {.plain = Seconds::Of(1.0),
                           .listed = Seconds::Of(1.0),
                           .uneven = Seconds::Of(1.0),
                           .grouped = Seconds::Infinite()};
  const SearchControl control;
  const auto visits = [&](const KindBounds& whole, const KindBounds& found) {
    std::vector<DimensionSet> visited;
    SearchMeter meter(control);
    PlanList plans(1);
    PredictedPlan plan;
    plan.plan.global_batch_size = 1;
    plan.prediction.step = Seconds::Of(2.0);
    plans.Offer(plan);
    SearchNestedSpaces(
        problem, {whole, Seconds::Infinite(), {}},
        [&](const PlanningProblem& part, Seconds) {
          visited.push_back(part.dimensions());
          return SpaceAnswer{found, Seconds::Infinite(), {}};
        },
        plans, meter);
    return visited;
  };
  EXPECT_EQ(visits(open, open).size(), 7u);
  // Plans of one stage a device are proved, so no space without virtual stages is visited.
  KindBounds plain_closed = open;
  plain_closed.plain = Seconds::Of(3.0);
  for (const DimensionSet& each : visits(plain_closed, open)) {
    EXPECT_TRUE(each.has(SearchDimension::kInterleaved));
  }
  // If each of the first three is proved, those within them are too.
  const Seconds closed = Seconds::Of(3.0);
  EXPECT_EQ(visits(open, {closed, closed, closed, closed}).size(), 3u);
}

TEST(SearchNestedSpaces, VisitsAllSpacesForSmallerDevicesUntilNoneIsOpen) {
  const PlanningProblem problem = LargeProblem({.device_count = 64});
  const size_t device_count = SmallerDevices(problem).size();
  ASSERT_GT(device_count, 3u);
  const KindBounds open = {Seconds::Of(1.0), Seconds::Of(1.0), Seconds::Of(1.0),
                           Seconds::Infinite()};
  const KindBounds closed = {Seconds::Of(3.0), Seconds::Of(3.0), Seconds::Of(3.0),
                             Seconds::Infinite()};
  const SearchControl control;
  for (const size_t open_device_count : {size_t{0}, size_t{2}, device_count}) {
    const Bytes least_open = open_device_count == 0
                                 ? problem.usable_memory()
                                 : SmallerDevices(problem)[open_device_count - 1].second;
    SearchMeter meter(control);
    PlanList plans(1);
    PredictedPlan plan;
    plan.plan.global_batch_size = 1;
    plan.prediction.step = Seconds::Of(2.0);
    plans.Offer(plan);
    size_t visit_count = 0;
    SearchNestedSpaces(
        problem, {open, Seconds::Infinite(), {}},
        [&](const PlanningProblem& part, Seconds) {
          ++visit_count;
          return SpaceAnswer{
              part.usable_memory() >= least_open ? open : closed, Seconds::Infinite(), {}};
        },
        plans, meter);
    // The whole space of the first device that is closed closes all others.
    const size_t closed_count = open_device_count == device_count ? 0 : 1;
    EXPECT_EQ(visit_count, 7 + 8 * open_device_count + closed_count);
  }
}

}  // namespace
}  // namespace parplan
