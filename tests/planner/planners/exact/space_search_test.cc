#include "planner/planners/exact/space_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <variant>

#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/planners/exact/best_first_search.h"
#include "planner/planners/exact/exact_search.h"
#include "planner/planners/exact/nested_spaces.h"
#include "tests/support/large_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kEqual = 1.0 + 2e-9;

// Returns the seconds per sample of the best plan, infinite without one.
double BestOf(const SpaceAnswer& answer) {
  return answer.plans.empty() ? kInfinity : answer.plans.front().time_per_sample().value();
}

// A question whose searches and proofs are asked for one by one, each with fresh knowledge.
class Question {
 public:
  explicit Question(const PlanningProblem& problem)
      : problem_(problem), costs_(*CostModel::Create(problem)) {}

  // Seconds per sample of the best plan of the search by itself, infinite without one, and its
  // bounds.
  double Search(SpaceAnswer& answer) const {
    return With([&](const SpaceSearches& searches) {
      answer = searches.search(problem_, Seconds::Infinite());
      return BestOf(answer);
    });
  }
  // The same of a proof against `enough`.
  double Prove(const SpaceAnswer& known, double enough, SpaceAnswer& answer) const {
    return With([&](const SpaceSearches& searches) {
      answer = searches.prove(problem_, known, Seconds::Of(enough));
      return BestOf(answer);
    });
  }

 private:
  template <typename Work>
  double With(const Work& work) const {
    const SearchControl control;
    SearchMeter meter(control);
    SharedKnowledge known;
    BestFirstSearch whole(problem_, costs_, control, known.TablesOf(problem_), meter, /*wanted=*/1);
    return work(SearchesOfSpaces(problem_, costs_, control, whole, known, meter));
  }

  const PlanningProblem problem_;
  const CostModel costs_;
};

double LeastOf(const SpaceAnswer& answer) {
  const KindBounds& bounds = answer.bounds;
  return std::min({bounds.plain, bounds.listed, bounds.uneven, bounds.grouped}).value();
}

PlanningProblem RandomProblem(uint64_t seed) {
  LargeOptions options = RandomLargeOptions(seed, /*max_layer_count=*/12, /*max_device_count=*/16);
  // Tight memory in two of three.
  const int64_t gibibytes[] = {80, 16, 8};
  options.device_memory = Bytes::Of(gibibytes[seed % 3] << 30);
  return LargeProblem(options);
}

// If a proof settles a space, the search of that space by itself finds no plan faster than both
// what was to be proved and what the proof found. No bound is above a plan.
TEST(SpaceProof, LosesNoPlanOfTheSearch) {
  int settled_count = 0;
  int found_count = 0;
  int open_count = 0;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    const Question question(RandomProblem(seed));
    SpaceAnswer alone;
    const double best = question.Search(alone);
    if (best == kInfinity) continue;
    for (const double factor : {0.97, 1.0, 1.0001, 1.01, 1.04, 1.2}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", factor " << factor);
      SpaceAnswer proved;
      const double enough = best * factor;
      const double found = question.Prove(SpaceAnswer(), enough, proved);
      EXPECT_LE(LeastOf(proved), std::min(best, found) * kEqual);
      if (!proved.is_settled) {
        ++open_count;
        continue;
      }
      ++settled_count;
      EXPECT_LE(std::min(found, enough), best * kEqual);
      found_count += found <= best * kEqual ? 1 : 0;
    }
  }
  EXPECT_GE(settled_count, 40);
  EXPECT_GE(found_count, 20);
  EXPECT_GE(open_count, 1);
}

// The same for spaces within a whole that was searched before, whose visits the proofs know.
TEST(SpaceProof, LosesNoPlanAfterVisitsOfTheWhole) {
  int settled_count = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const PlanningProblem problem = RandomProblem(seed);
    const CostModel costs = *CostModel::Create(problem);
    const SearchControl control;
    SearchMeter meter(control);
    SharedKnowledge known;
    BestFirstSearch whole(problem, costs, control, known.TablesOf(problem), meter, /*wanted=*/1);
    const SpaceSearches searches = SearchesOfSpaces(problem, costs, control, whole, known, meter);
    searches.search(problem, Seconds::Infinite());
    for (const int percent : {100, 70}) {
      for (const DimensionSet& dimensions : SpacesWithoutGroups(problem)) {
        PlanningRules rules = problem.rules();
        rules.dimensions = dimensions;
        const PlanningProblem part = problem.WithRules(rules).WithUsableMemory(
            Bytes::Of(problem.usable_memory().count() / 100 * percent));
        SpaceAnswer alone;
        const double best = Question(part).Search(alone);
        if (best == kInfinity) continue;
        for (const double factor : {1.0, 1.0001, 1.05}) {
          SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << percent << " %, "
                                          << dimensions.ToString() << ", factor " << factor);
          const double enough = best * factor;
          const SpaceAnswer proved = searches.prove(part, SpaceAnswer(), Seconds::Of(enough));
          EXPECT_LE(LeastOf(proved), std::min(best, BestOf(proved)) * kEqual);
          if (!proved.is_settled) continue;
          ++settled_count;
          EXPECT_LE(std::min(BestOf(proved), enough), best * kEqual);
        }
      }
    }
  }
  EXPECT_GE(settled_count, 20);
}

// A wanted gap ends a search early, but closes no space that has a faster plan.
TEST(SpaceProof, AWantedGapSettlesNothingThatIsOpen) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const PlanningProblem problem = RandomProblem(seed);
    const CostModel costs = *CostModel::Create(problem);
    SpaceAnswer alone;
    const double best = Question(problem).Search(alone);
    if (best == kInfinity) continue;
    SearchControl control;
    control.wanted_gap_ratio = 0.05;
    SearchMeter meter(control);
    SharedKnowledge known;
    BestFirstSearch whole(problem, costs, control, known.TablesOf(problem), meter, /*wanted=*/1);
    const double enough = best * 1.03;
    const SpaceAnswer proved = SearchesOfSpaces(problem, costs, control, whole, known, meter)
                                   .prove(problem, SpaceAnswer(), Seconds::Of(enough));
    if (proved.is_settled) {
      EXPECT_LT(BestOf(proved), enough) << "seed " << seed;
    }
  }
}

// Partitions that are not listed are searched until limits are reached. A lower cutoff still loses
// no plan below it.
TEST(SpaceProof, ALowerCutoffLosesNoPartitionThatIsNotListed) {
  const Seconds none = Seconds::Infinite();
  const SpaceAnswer only_uneven = {.bounds = {.plain = none, .listed = none, .grouped = none},
                                   .blocks = none};
  int found_count = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const Question question(RandomProblem(seed));
    SpaceAnswer alone;
    const double best = question.Search(alone);
    if (best == kInfinity) continue;
    double before = kInfinity;
    for (double enough = best * 1.5; enough > best * 0.95; enough *= 0.97) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << enough / best);
      SpaceAnswer proved;
      const double found = question.Prove(only_uneven, enough, proved);
      EXPECT_TRUE(proved.is_settled);
      if (before < enough) {
        ++found_count;
        EXPECT_LE(found, before * kEqual);
      }
      before = std::min(before, found);
    }
  }
  EXPECT_GE(found_count, 10);
}

TEST(ListOnce, GivesTheSameCandidatesForEveryMemory) {
  const PlanningProblem problem = RandomProblem(/*seed=*/3);
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  ASSERT_OK(costs.status());
  const SearchControl control;
  SearchMeter meter(control);
  SharedKnowledge known;
  for (const int percent : {100, 60}) {
    const PlanningProblem part =
        problem.WithUsableMemory(Bytes::Of(problem.usable_memory().count() / 100 * percent));
    BestFirstSearch once(part, *costs, control, known.TablesOf(part), meter, /*wanted=*/1);
    BestFirstSearch again(part, *costs, control, known.TablesOf(part), meter, /*wanted=*/1);
    ASSERT_TRUE(ListOnce(once, known));
    ASSERT_TRUE(again.List());
    EXPECT_EQ(known.lists.size(), 1u);
    EXPECT_GT(once.candidate_count(), 0);
    EXPECT_EQ(once.candidate_count(), again.candidate_count());
    EXPECT_EQ(once.BoundPerSample(), again.BoundPerSample());
    EXPECT_EQ(once.BoundsPerSample().uneven, again.BoundsPerSample().uneven);
  }
}

// Returns seconds per sample of the answer under a limit of states, infinite without a plan.
double AnswerAfter(int64_t max_state_count, const PlanningProblem& problem) {
  SearchControl control;
  control.max_state_count = max_state_count;
  const std::optional<PlanningResult> result =
      SearchExact(problem, *CostModel::Create(problem), control);
  if (!result.has_value()) return kInfinity;
  const auto* const found = std::get_if<PlanFound>(&*result);
  if (found == nullptr) return kInfinity;
  return found->prediction.step.value() / static_cast<double>(found->plan.global_batch_size);
}

// A search of a mixture of experts that is stopped is no slower than that of few dimensions that
// ends by itself within the same states.
TEST(SearchFewDimensions, LosesNothingOfTheSmallerSpaceWhenStopped) {
  int count = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    LargeOptions options =
        RandomLargeOptions(seed, /*max_layer_count=*/24, /*max_device_count=*/64);
    for (LargeRun& run : options.runs) run.expert_count = 16;
    options.rules.target = Target::kMegatron;
    const PlanningProblem problem = LargeProblem(options);
    PlanningRules rules = problem.rules();
    rules.dimensions = problem.dimensions()
                           .Without(SearchDimension::kInterleaved)
                           .Without(SearchDimension::kGroupSize)
                           .Without(SearchDimension::kHybridSharding)
                           .Without(SearchDimension::kModuleRecompute)
                           .Without(SearchDimension::kBlockRecompute)
                           .Without(SearchDimension::kExpertTensor)
                           .Without(SearchDimension::kZeroBubble);
    const PlanningProblem part = problem.WithRules(rules);
    const CostModel costs = *CostModel::Create(part);
    SearchControl control;
    SearchMeter meter(control);
    SharedKnowledge known;
    BestFirstSearch whole(part, costs, control, known.TablesOf(part), meter, /*wanted=*/1);
    const SpaceAnswer small = SearchesOfSpaces(part, costs, control, whole, known, meter)
                                  .search(part, Seconds::Infinite());
    if (small.plans.empty()) continue;
    ++count;
    // A few states beyond those of the smaller space: far too few for the whole one.
    const int64_t states = meter.expanded_state_count() + 1;
    EXPECT_LE(AnswerAfter(states, problem), BestOf(small) * kEqual) << "seed " << seed;
  }
  EXPECT_GE(count, 8);
}

}  // namespace
}  // namespace parplan
