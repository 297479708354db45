#include "planner/planners/exact/nested_spaces.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <variant>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/find_plan.h"
#include "planner/model/device_memory.h"
#include "planner/planners/exact/best_first_search.h"
#include "planner/planners/exact/exact_search.h"
#include "tests/support/large_problem.h"
#include "tests/support/search_laws.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

NothingFits NothingOf(const LargeOptions& options) {
  absl::StatusOr<PlanningResult> result = FindPlan(LargeProblem(options), "exact");
  EXPECT_OK(result.status());
  EXPECT_TRUE(std::holds_alternative<NothingFits>(*result));
  return std::get<NothingFits>(*std::move(result));
}

// Expects reports of a question that count more states than the search of the whole space, so that
// smaller ones are searched and reported.
void ExpectReportsOfParts(const PlanningProblem& problem) {
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  ASSERT_OK(costs.status());
  const SearchControl alone;
  SearchMeter meter(alone);
  TableCache tables;
  BestFirstSearch whole(problem, *costs, alone, tables, meter, /*wanted=*/1);
  ASSERT_TRUE(whole.List());
  whole.Run();
  int64_t state_count = 0;
  const SearchControl control = {.on_progress = [&](const SearchProgress& progress) {
    EXPECT_GE(progress.expanded_state_count, state_count);
    state_count = progress.expanded_state_count;
  }};
  EXPECT_TRUE(SearchExact(problem, *costs, control).has_value());
  EXPECT_GT(state_count, meter.expanded_state_count());
}

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

// Proves nothing.
SpaceAnswer NoProof(const PlanningProblem&, const SpaceAnswer&, Seconds) { return {}; }

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
    SearchNestedSpaces(problem, {whole, Seconds::Infinite(), {}},
                       {[&](const PlanningProblem& part, Seconds) {
                          visited.push_back(part.dimensions());
                          return SpaceAnswer{found, Seconds::Infinite(), {}};
                        },
                        NoProof},
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
    SearchNestedSpaces(problem, {open, Seconds::Infinite(), {}},
                       {[&](const PlanningProblem& part, Seconds) {
                          ++visit_count;
                          return SpaceAnswer{part.usable_memory() >= least_open ? open : closed,
                                             Seconds::Infinite(),
                                             {}};
                        },
                        NoProof},
                       plans, meter);
    // The whole space of the first device that is closed closes all others.
    const size_t closed_count = open_device_count == device_count ? 0 : 1;
    EXPECT_EQ(visit_count, 7 + 8 * open_device_count + closed_count);
  }
}

// A space that is proved, or settled, against the best plan is not searched. One that is settled is
// open, so that it is looked at for less memory too.
TEST(SearchNestedSpaces, SearchesNoSpaceThatAProofSettles) {
  const PlanningProblem problem = LargeProblem({.device_count = 64});
  const KindBounds open = {Seconds::Of(1.0), Seconds::Of(1.0), Seconds::Of(1.0),
                           Seconds::Infinite()};
  const KindBounds closed = {Seconds::Of(3.0), Seconds::Of(3.0), Seconds::Of(3.0),
                             Seconds::Infinite()};
  const SearchControl control;
  for (const bool is_proved : {false, true}) {
    SearchMeter meter(control);
    PlanList plans(1);
    PredictedPlan plan;
    plan.plan.global_batch_size = 1;
    plan.prediction.step = Seconds::Of(2.0);
    plans.Offer(plan);
    size_t proof_count = 0;
    size_t search_count = 0;
    SearchNestedSpaces(problem, {open, Seconds::Infinite(), {}},
                       {[&](const PlanningProblem& part, Seconds) {
                          // Its plans were looked at in the space with virtual stages.
                          EXPECT_FALSE(part.dimensions().has(SearchDimension::kInterleaved));
                          ++search_count;
                          return SpaceAnswer{closed, Seconds::Infinite(), {}};
                        },
                        [&](const PlanningProblem& part, const SpaceAnswer&, Seconds enough) {
                          EXPECT_TRUE(part.dimensions().has(SearchDimension::kInterleaved));
                          EXPECT_EQ(enough, Seconds::Of(2.0) * (1.0 - 1e-9));
                          ++proof_count;
                          return SpaceAnswer{.bounds = is_proved ? closed : KindBounds(),
                                             .blocks = Seconds::Infinite(),
                                             .is_settled = true};
                        }},
                       plans, meter);
    EXPECT_EQ(search_count, 1u);
    // Three spaces with virtual stages within the whole; of smaller devices four each, or the one
    // whose proof closes all others.
    EXPECT_EQ(proof_count, is_proved ? 2u + 1u : 3u + 4u * SmallerDevices(problem).size());
  }
}

// A search that finds no plan and does not prove it goes on in the smaller spaces.
TEST(SearchNestedSpaces, VisitsAllSpacesWhereThereIsNoPlan) {
  const PlanningProblem problem = LargeProblem({.device_count = 128});
  const KindBounds open = {Seconds::Of(1.0), Seconds::Of(1.0), Seconds::Of(1.0),
                           Seconds::Infinite()};
  const SearchControl control;
  SearchMeter meter(control);
  PlanList plans(1);
  int visit_count = 0;
  SearchNestedSpaces(problem, {open, Seconds::Infinite(), {}},
                     {[&](const PlanningProblem&, Seconds enough) {
                        EXPECT_FALSE(enough.is_finite());
                        SpaceAnswer answer = {open, Seconds::Infinite(), {}};
                        if (++visit_count == 7) {
                          PredictedPlan plan;
                          plan.plan.global_batch_size = 1;
                          plan.prediction.step = Seconds::Of(2.0);
                          answer.plans.push_back(plan);
                        }
                        return answer;
                      },
                      [](const PlanningProblem&, const SpaceAnswer&, Seconds) {
                        ADD_FAILURE() << "there is nothing to prove against";
                        return SpaceAnswer();
                      }},
                     plans, meter);
  EXPECT_EQ(visit_count, 7);
  EXPECT_EQ(plans.plans().size(), 1u);
}

// Memory just below the least that the search knows to suffice. Nothing proves that it does not.
TEST(SearchNestedSpaces, NoSpaceHasAPlanWhereTheWholeHasNone) {
  LargeOptions options =
      RandomLargeOptions(/*seed=*/1, /*max_layer_count=*/10, /*max_device_count=*/8);
  options.device_memory = Bytes::Of(int64_t{3} << 30);
  options.device_memory = NothingOf(options).smallest_device_memory - Bytes::Of(int64_t{1} << 20);
  EXPECT_FALSE(NothingOf(options).memory_is_proved);
  for (const LesserQuestion& each : NestedSpacesOf(options)) {
    SCOPED_TRACE(each.name);
    EXPECT_FALSE(std::isfinite(AnswerOf(each.options).per_sample));
  }
  ExpectReportsOfParts(LargeProblem(options));
}

TEST(SearchNestedSpaces, ReportsBetweenSpaces) {
  ExpectReportsOfParts(LargeProblem(
      RandomLargeOptions(/*seed=*/1, /*max_layer_count=*/32, /*max_device_count=*/128)));
}

}  // namespace
}  // namespace parplan
