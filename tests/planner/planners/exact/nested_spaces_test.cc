#include "planner/planners/exact/nested_spaces.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

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

TEST(SearchNestedSpaces, VisitsEachSpaceOnceUnlessABoundClosesIt) {
  const PlanningProblem problem = LargeProblem(LargeOptions());
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

}  // namespace
}  // namespace parplan
