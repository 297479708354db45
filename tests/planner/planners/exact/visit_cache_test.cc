#include "planner/planners/exact/visit_cache.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/planners/exact/best_first_search.h"
#include "planner/planners/exact/nested_spaces.h"
#include "tests/support/large_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// The parts of a search that others can see.
struct Outcome {
  std::vector<double> seconds_per_sample;
  std::vector<Plan> plans;
  double bound_per_sample = 0.0;
  int64_t expanded_count = 0;
  int64_t pruned_count = 0;
};

Outcome Search(const PlanningProblem& problem, VisitCache* visits) {
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  EXPECT_OK(costs.status());
  const SearchControl control;
  SearchMeter meter(control);
  TableCache tables;
  BestFirstSearch search(problem, *costs, control, tables, meter, problem.rules().top_plan_count);
  search.set_visits(visits);
  EXPECT_TRUE(search.List());
  search.Run();
  Outcome outcome = {.bound_per_sample = search.BoundPerSample().value(),
                     .expanded_count = meter.expanded_state_count(),
                     .pruned_count = meter.pruned_state_count()};
  for (const PredictedPlan& each : search.plans().plans()) {
    outcome.seconds_per_sample.push_back(each.time_per_sample().value());
    outcome.plans.push_back(each.plan);
  }
  return outcome;
}

// The whole space, those without one group of dimensions, and the whole for less memory.
std::vector<PlanningProblem> SpacesOf(const PlanningProblem& problem) {
  std::vector<PlanningProblem> spaces = {problem};
  for (const DimensionSet dimensions : SpacesWithoutGroups(problem)) {
    PlanningRules rules = problem.rules();
    rules.dimensions = dimensions;
    spaces.push_back(problem.WithRules(rules));
  }
  spaces.push_back(problem.WithUsableMemory(Bytes::Of(problem.usable_memory().count() / 100 * 60)));
  return spaces;
}

TEST(VisitCache, ChangesNoSearchOfAnySpaceOrMemory) {
  int open_count = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    LargeOptions options = RandomLargeOptions(seed, /*max_layer_count=*/8, /*max_device_count=*/16);
    options.rules.top_plan_count = seed % 3 == 0 ? 3 : 1;
    VisitCache visits;
    size_t count_of_whole = 0;
    for (const PlanningProblem& space : SpacesOf(LargeProblem(options))) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << space.dimensions().ToString()
                                      << ", " << space.usable_memory().count() << " bytes");
      const Outcome without = Search(space, nullptr);
      const Outcome with = Search(space, &visits);
      EXPECT_EQ(with.seconds_per_sample, without.seconds_per_sample);
      EXPECT_TRUE(with.plans == without.plans);
      EXPECT_EQ(with.bound_per_sample, without.bound_per_sample);
      EXPECT_EQ(with.expanded_count, without.expanded_count);
      EXPECT_EQ(with.pruned_count, without.pruned_count);
      if (!without.plans.empty() &&
          without.bound_per_sample < without.seconds_per_sample.front() * (1.0 - 1e-9)) {
        ++open_count;
      }
      // Another search of a space takes all its visits from the first.
      const size_t count = visits.size();
      if (count_of_whole == 0) {
        count_of_whole = count;
        Search(space, &visits);
        EXPECT_EQ(visits.size(), count);
      }
    }
    EXPECT_GT(count_of_whole, 0u);
  }
  EXPECT_GE(open_count, 50);
}

TEST(VisitCache, KeepsBoundsForLessMemoryAndAnyCutoff) {
  VisitCache visits;
  VisitCache::Key key = {.usable_memory = Bytes::Of(100), .cutoff = 2.0};
  EXPECT_EQ(visits.BoundOf(key), Seconds());
  EXPECT_FALSE(visits.IsGivenUp(key));
  visits.Record(key, {.bound = Seconds::Of(1.0), .plans = {}, .is_exact = false});
  // A visit that a limit ended says nothing.
  visits.Record(key, {.bound = Seconds::Of(9.0), .plans = {}, .limit = SearchLimit::kTime});
  key.cutoff = 3.0;
  key.state = ExactCandidate::State::kTried;
  EXPECT_EQ(visits.Find(key), nullptr);
  EXPECT_EQ(visits.BoundOf(key), Seconds::Of(1.0));
  EXPECT_TRUE(visits.IsGivenUp(key));
  key.usable_memory = Bytes::Of(99);
  EXPECT_EQ(visits.BoundOf(key), Seconds::Of(1.0));
  EXPECT_FALSE(visits.IsGivenUp(key));
  key.usable_memory = Bytes::Of(101);
  EXPECT_EQ(visits.BoundOf(key), Seconds());
  // One that is open has not been given up.
  VisitCache::Key other = {.micro_batch_count = 2};
  visits.Record(other, {.bound = Seconds(), .plans = {}, .is_exact = false, .is_open = true});
  EXPECT_FALSE(visits.IsGivenUp(other));
}

}  // namespace
}  // namespace parplan
