#include "planner/planners/ilp/ilp_planners.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/check/plan_check.h"
#include "planner/check/result_check.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/synthetic_problem.h"

namespace parplan {
namespace {

using testing::HasSubstr;

using Search = std::optional<PlanningResult> (*)(const PlanningProblem&, const CostModel&,
                                                 const SearchControl&);

class IlpPlanners : public testing::TestWithParam<Search> {
 protected:
  static std::optional<PlanningResult> Run(const PlanningProblem& problem,
                                           const SearchControl& control = {}) {
    const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
    EXPECT_TRUE(costs.ok()) << costs.status();
    return GetParam()(problem, *costs, control);
  }
};
std::string SearchName(const testing::TestParamInfo<Search>& info) {
  if (info.index == 0) return "MinMemoryIlp";
  return info.index == 1 ? "AlpaLike" : "ColossalAutoLike";
}
INSTANTIATE_TEST_SUITE_P(All, IlpPlanners,
                         testing::Values(&SearchMinMemoryIlp, &SearchAlpaLike,
                                         &SearchColossalAutoLike),
                         SearchName);

// Layers few enough for a test, kinds enough for the writer of operators.
std::vector<PlanningProblem> Problems() {
  std::vector<PlanningProblem> problems;
  EstimatedOptions small{.device_count = 8,
                         .decoder_count = 4,
                         .hidden_size = 2048,
                         .attention_head_count = 16,
                         .sequence_length = 1024,
                         .global_batch_size = 16};
  problems.push_back(EstimatedProblem(small));
  EstimatedOptions six = small;
  six.device_count = six.devices_per_node = 6;
  six.attention_head_count = 12;
  six.hidden_size = 1536;
  six.global_batch_size = 12;
  problems.push_back(EstimatedProblem(six));
  EstimatedOptions experts = small;
  experts.expert_count = 8;
  experts.tied_embedding = false;
  problems.push_back(EstimatedProblem(experts));
  EstimatedOptions two_nodes = small;
  two_nodes.device_count = 16;
  two_nodes.rules.micro_batch_count = 2;
  problems.push_back(EstimatedProblem(two_nodes));
  EstimatedOptions restricted = small;
  restricted.rules.dimensions = DimensionSet::All()
                                    .Without(SearchDimension::kPerLayer)
                                    .Without(SearchDimension::kEndStrategies)
                                    .Without(SearchDimension::kParameterSharding);
  problems.push_back(EstimatedProblem(restricted));
  EstimatedOptions one = small;
  one.device_count = 1;
  one.decoder_count = 2;
  problems.push_back(EstimatedProblem(one));
  problems.push_back(SyntheticProblem());
  problems.push_back(SyntheticProblem({.device_count = 4, .devices_per_node = 4}));
  return problems;
}

TEST_P(IlpPlanners, AnswersAreValidOrSayWhatWouldDo) {
  for (const PlanningProblem& problem : Problems()) {
    SCOPED_TRACE(problem.model().model_id());
    std::optional<PlanningResult> result = Run(problem);
    ASSERT_TRUE(result.has_value());
    if (const auto* nothing = std::get_if<NothingFits>(&*result)) {
      EXPECT_GT(nothing->smallest_usable_memory, problem.usable_memory());
      const PlanningProblem enough = problem.WithUsableMemory(nothing->smallest_usable_memory);
      const std::optional<PlanningResult> again = Run(enough);
      ASSERT_TRUE(std::holds_alternative<PlanFound>(*again));
      EXPECT_TRUE(CheckPlan(enough, std::get<PlanFound>(*again).plan,
                            std::get<PlanFound>(*again).prediction)
                      .ok());
      const PlanningProblem little =
          problem.WithUsableMemory(nothing->smallest_usable_memory - Bytes::Of(1));
      EXPECT_TRUE(std::holds_alternative<NothingFits>(*Run(little)));
      continue;
    }
    ASSERT_TRUE(std::holds_alternative<PlanFound>(*result));
    const PlanFound& found = std::get<PlanFound>(*result);
    EXPECT_TRUE(CheckPlan(problem, found.plan, found.prediction).ok())
        << CheckPlan(problem, found.plan, found.prediction) << PlanGist(found.plan);
    EXPECT_TRUE(found.prediction.fits());
    ASSERT_GE(found.notes.size(), 3u);
    EXPECT_THAT(found.notes[0], HasSubstr("mesh"));
    EXPECT_THAT(found.notes[1], HasSubstr("proved"));
  }
}

TEST_P(IlpPlanners, MoreMemoryIsNeverSlower) {
  const std::vector<PlanningProblem> problems = Problems();
  for (const PlanningProblem& problem : {problems.front(), problems.back()}) {
    std::optional<Seconds> before;
    for (const double share : {0.05, 0.1, 0.2, 0.4, 1.0}) {
      const PlanningProblem budget = problem.WithUsableMemory(
          Bytes::Of(static_cast<int64_t>(problem.usable_memory().as_double() * share)));
      const std::optional<PlanningResult> result = Run(budget);
      const auto* found = std::get_if<PlanFound>(&*result);
      EXPECT_FALSE(before.has_value() && found == nullptr);
      if (found == nullptr) continue;
      if (before) {
        EXPECT_LE(found->prediction.step, *before);
      }
      before = found->prediction.step;
    }
  }
}

// Not for every problem there is: see docs/min-memory-ilp.md, "Limits".
TEST_P(IlpPlanners, FasterLinksAreNotSlowerHere) {
  for (const int device_count : {2, 4}) {
    std::optional<Seconds> before;
    for (const double speed : {0.25, 1.0, 4.0}) {
      const PlanningProblem problem = EstimatedProblem({.device_count = device_count,
                                                        .decoder_count = 4,
                                                        .hidden_size = 2048,
                                                        .attention_head_count = 16,
                                                        .sequence_length = 1024,
                                                        .global_batch_size = 8,
                                                        .link_speed = speed});
      const std::optional<PlanningResult> result = Run(problem);
      ASSERT_TRUE(std::holds_alternative<PlanFound>(*result));
      const Seconds step = std::get<PlanFound>(*result).prediction.step;
      if (before) {
        EXPECT_LE(step, *before) << device_count << " devices, " << speed;
      }
      before = step;
    }
  }
}

TEST_P(IlpPlanners, AnswerTheSameAgain) {
  const PlanningProblem problem = Problems().front();
  const std::optional<PlanningResult> first = Run(problem);
  const std::optional<PlanningResult> second = Run(problem);
  EXPECT_EQ(std::get<PlanFound>(*first).plan, std::get<PlanFound>(*second).plan);
  EXPECT_EQ(std::get<PlanFound>(*first).notes, std::get<PlanFound>(*second).notes);
  EXPECT_EQ(std::get<PlanFound>(*first).search.expanded_state_count,
            std::get<PlanFound>(*second).search.expanded_state_count);
}

TEST_P(IlpPlanners, NameNoLimitThatNobodySet) {
  for (const PlanningProblem& problem : Problems()) {
    SCOPED_TRACE(problem.model().model_id());
    const std::optional<PlanningResult> result = Run(problem);
    const auto* const found = result ? std::get_if<PlanFound>(&*result) : nullptr;
    if (found != nullptr) {
      EXPECT_EQ(found->search.limit, SearchLimit::kMethod);
    }
  }
}

// A plan that needs no search is found before a limit is asked.
TEST_P(IlpPlanners, AnswerWithinAnyLimit) {
  const PlanningProblem problem = Problems().front();
  SearchControl at_once;
  at_once.should_stop = [] { return true; };
  SearchControl few;
  few.max_state_count = 1;
  int questions = 0;
  SearchControl later;
  later.should_stop = [&] { return ++questions > 12; };
  for (const SearchControl& control : {at_once, few, later}) {
    const std::optional<PlanningResult> result = Run(problem, control);
    ASSERT_TRUE(std::holds_alternative<PlanFound>(*result));
    const PlanFound& found = std::get<PlanFound>(*result);
    EXPECT_TRUE(CheckPlan(problem, found.plan, found.prediction).ok());
    EXPECT_EQ(found.search.termination, Termination::kFeasible);
    EXPECT_EQ(found.search.limit, control.should_stop ? SearchLimit::kTime : SearchLimit::kStates);
  }
  // If that plan does not fit, a stopped search knows whether another one does only where sums of
  // memory were looked at.
  const PlanningProblem tiny = problem.WithUsableMemory(Bytes::Of(1 << 20));
  const std::optional<PlanningResult> nothing = Run(tiny, at_once);
  if (GetParam() == &SearchMinMemoryIlp) {
    ASSERT_TRUE(std::holds_alternative<NothingFits>(*nothing));
    EXPECT_TRUE(CheckResult(tiny, *nothing).ok()) << CheckResult(tiny, *nothing);
    return;
  }
  ASSERT_TRUE(std::holds_alternative<StoppedEmpty>(*nothing));
  EXPECT_EQ(std::get<StoppedEmpty>(*nothing).search.limit, SearchLimit::kTime);
}

TEST_P(IlpPlanners, GiveNothingWhereNoDegreeDivides) {
  // One sample on 16 devices and four heads, without context parallelism and pipelines.
  EstimatedOptions options{.device_count = 16,
                           .decoder_count = 2,
                           .hidden_size = 512,
                           .attention_head_count = 4,
                           .sequence_length = 128,
                           .global_batch_size = 1};
  options.rules.dimensions = DimensionSet::All()
                                 .Without(SearchDimension::kPipeline)
                                 .Without(SearchDimension::kContext)
                                 .Without(SearchDimension::kUlysses);
  EXPECT_FALSE(Run(EstimatedProblem(options)).has_value());
}

TEST_P(IlpPlanners, TopPlansAreDistinctAndInOrder) {
  EstimatedOptions options{.device_count = 8,
                           .decoder_count = 4,
                           .hidden_size = 2048,
                           .attention_head_count = 16,
                           .sequence_length = 1024,
                           .global_batch_size = 16};
  options.rules.top_plan_count = 3;
  const PlanningProblem problem = EstimatedProblem(options);
  const std::optional<PlanningResult> result = Run(problem);
  const PlanFound& found = std::get<PlanFound>(*result);
  ASSERT_GE(found.alternatives.size(), 1u);
  for (const PredictedPlan& other : found.alternatives) {
    EXPECT_NE(other.plan, found.plan);
    EXPECT_TRUE(CheckPlan(problem, other.plan, other.prediction).ok());
  }
}

// (5) by hand: at the ends it is memory alone and time alone.
TEST(MinMemoryIlp, AlphaWeighsTimeAgainstMemory) {
  EstimatedOptions options{.device_count = 8,
                           .decoder_count = 4,
                           .hidden_size = 2048,
                           .attention_head_count = 16,
                           .sequence_length = 1024,
                           .global_batch_size = 16};
  options.rules.top_plan_count = 100;
  const auto find = [&options](std::optional<double> alpha) {
    options.rules.ilp_alpha_bytes_per_second = alpha;
    const PlanningProblem problem = EstimatedProblem(options);
    const CostModel costs = *CostModel::Create(problem);
    PlanFound found = std::get<PlanFound>(*SearchMinMemoryIlp(problem, costs, {}));
    EXPECT_TRUE(CheckResult(problem, found).ok()) << CheckResult(problem, found);
    return found;
  };
  const auto memory = [](const PlanFound& found) {
    return found.prediction.peak_memory_upper.as_double();
  };
  const PlanFound lexicographic = find({});
  EXPECT_THAT(lexicographic.notes[1], HasSubstr("least memory"));
  // Memory alone has ties, which time breaks only in the other mode.
  EXPECT_NEAR(memory(find(0.0)) / memory(lexicographic), 1.0, 0.2);
  const PlanFound fast = find(1e15);
  EXPECT_THAT(fast.notes[1], HasSubstr("GiB a second"));
  EXPECT_LT(fast.prediction.step, lexicographic.prediction.step);
  EXPECT_GT(memory(fast), memory(lexicographic));
  for (const double alpha : {1e8, 1e10, 1e12}) {
    const PlanFound found = find(alpha);
    const double weight = memory(found) + alpha * found.prediction.step.value();
    ASSERT_FALSE(found.alternatives.empty());
    for (const PredictedPlan& other : found.alternatives) {
      EXPECT_LE(weight, other.prediction.peak_memory_upper.as_double() +
                            alpha * other.prediction.step.value());
    }
  }
}

TEST(MinMemoryIlp, SplitsWeightsOfALargeModelOverAllDevices) {
  EstimatedOptions options{.device_count = 8,
                           .decoder_count = 36,
                           .hidden_size = 4096,
                           .attention_head_count = 32,
                           .sequence_length = 2048,
                           .global_batch_size = 8};
  options.rules.micro_batch_count = 1;
  options.rules.max_pipeline_parallel_degree = 1;
  options.rules.allow_recompute = false;
  const PlanningProblem problem = EstimatedProblem(options);
  const CostModel costs = *CostModel::Create(problem);
  const std::optional<PlanningResult> result = SearchMinMemoryIlp(problem, costs, {});
  const PlanFound& found = std::get<PlanFound>(*result);
  // A weight replica of 7.5 billion parameters on two devices would be 16 GiB more.
  const Strategy& decoder = found.plan.stages[0].layer_runs[1].strategy;
  EXPECT_TRUE(decoder.tensor_parallel_degree == 8 ||
              decoder.sharding_level == ShardingLevel::kParameters)
      << PlanGist(found.plan);
  EXPECT_THAT(found.notes[1], HasSubstr("optimal for the mesh"));
  EXPECT_THAT(found.notes[2], HasSubstr("beyond an even share"));
}

}  // namespace
}  // namespace parplan
