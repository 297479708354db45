// Weak points 18 to 22 of the public Galvatron engine, as numbered in docs/galvatron.md:
// searches that take long. Each test is a problem on which a planner with the weakness fails.

#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "planner/search/base/search_meter.h"
#include "planner/search/stage/dense_assignment.h"
#include "tests/planner/search/weak_points.h"
#include "tests/support/allocation_count.h"
#include "tests/support/hand_made_problem.h"
#include "tests/support/status_matchers.h"
#include "tests/support/synthetic_problem.h"

namespace parplan {
namespace {

using enum SearchDimension;

// Strategies of the ends are searched with those of the layers and not around them: they
// multiply nothing. The engine solves every stage again for each of them, up to 14 times.
TEST(WeakPoint18, EndsDoNotRepeatTheSearch) {
  HandMadeOptions options{.layers = {{.kind = LayerKind::kEmbedding, .parameter_count = 2'400'000},
                                     {.count = 16, .parameter_count = 2'400'000},
                                     {.kind = LayerKind::kHead, .parameter_count = 2'400'000}},
                          .device_count = 8,
                          .device_memory = Bytes::Of(100'000'000),
                          .global_batch_size = 16};
  options.rules = RulesOf({kPipeline, kTensor, kPerLayer, kFullRecompute, kParameterSharding,
                           kGradientSharding, kOptimizerSharding, kUnevenStages});
  const std::optional<PlanFound> without = AnswerOf(HandMadeProblem(options));
  options.rules.dimensions = options.rules.dimensions.With(kEndStrategies);
  const std::optional<PlanFound> with = AnswerOf(HandMadeProblem(options));
  ASSERT_TRUE(with.has_value() && without.has_value());
  EXPECT_EQ(with->search.termination, Termination::kOptimal);
  EXPECT_LT(with->search.expanded_state_count, 4 * without->search.expanded_state_count);
}

// Equal layers are counted and not walked through: twice as many are no more than about
// twice the states.
TEST(WeakPoint20, StatesGrowNoFasterThanLayers) {
  std::vector<int64_t> states;
  for (const int count : {32, 64, 128, 256}) {
    HandMadeOptions options{.layers = {{.count = count, .activation_bytes_per_sample = 1'000'000}},
                            .device_count = 8,
                            .global_batch_size = 16};
    options.rules = RulesOf({kTensor, kPerLayer, kFullRecompute, kParameterSharding});
    options.device_memory = Bytes::Of(int64_t{1'000'000} * count);
    const std::optional<PlanFound> found = AnswerOf(HandMadeProblem(options));
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->search.termination, Termination::kOptimal);
    states.push_back(found->search.expanded_state_count);
  }
  for (size_t i = 1; i < states.size(); ++i) EXPECT_LE(states[i], 3 * states[i - 1] + 1000) << i;
}

// A hundred times the memory and layers that need a hundred times as much are the same
// question: nothing is counted in megabytes.
TEST(WeakPoint20, StatesDoNotGrowWithMemory) {
  std::vector<int64_t> states;
  std::vector<Seconds> steps;
  for (const int64_t scale : {1, 100}) {
    HandMadeOptions options{.layers = {{.count = 16,
                                        .parameter_count = 2'400'000 * scale,
                                        .activation_bytes_per_sample = 2'400'000 * scale}},
                            .device_count = 8,
                            .seconds_per_byte = 1e-9 / static_cast<double>(scale),
                            .device_memory = Bytes::Of(300'000'000 * scale),
                            .global_batch_size = 16};
    options.rules = RulesOf({kTensor, kPerLayer, kParameterSharding});
    options.rules.max_pipeline_parallel_degree = 1;
    const std::optional<PlanFound> found = AnswerOf(HandMadeProblem(options));
    ASSERT_TRUE(found.has_value());
    states.push_back(found->search.expanded_state_count);
    steps.push_back(found->prediction.step);
  }
  EXPECT_LT(states[1], 5 * states[0]);
}

// The dense programme allocates rows and not cells: as often with a hundred times the
// memory.
TEST(WeakPoint19, CellsOfTheDenseProgrammeAllocateNothing) {
  DenseStage stage;
  stage.layout_count = 2;
  const Seconds change = Seconds::Of(0.5);
  stage.kinds = {{.options = {{0, Seconds::Of(1), 4}, {1, Seconds::Of(1.5), 2}},
                  .transitions = {Seconds(), change, change, Seconds()}}};
  stage.kind_of_layer.assign(24, 0);
  const auto allocations = [&stage](int64_t capacity) {
    const SearchControl control;
    SearchMeter meter(control);
    const std::optional<int64_t> before = AllocationCount();
    DenseAssignment dense(stage, 0, capacity, meter);
    EXPECT_TRUE(dense.At(capacity).has_value());
    return AllocationCount().value_or(0) - before.value_or(0);
  };
  if (!AllocationCount().has_value()) GTEST_SKIP() << "sanitizers bring their own allocator";
  const int64_t few = allocations(60);
  for (DenseOption& option : stage.kinds[0].options) option.units *= 100;
  EXPECT_LE(allocations(6000), few + 4);
}

// Threads that are lent do the work: each index of a call goes to another one.
TEST(WeakPoint21, ThreadsThatAreLentAreUsed) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  int64_t shared_count = 0;
  SearchControl control;
  control.parallel_for = [&](int64_t count, const std::function<void(int64_t)>& work) {
    if (count > 1) shared_count += count;
    std::vector<std::thread> lent;
    for (int64_t index = 0; index < count; ++index) {
      lent.emplace_back([&, index] {
        {
          const std::lock_guard<std::mutex> lock(mutex);
          threads.insert(std::this_thread::get_id());
        }
        work(index);
      });
    }
    for (std::thread& thread : lent) thread.join();
  };
  const PlanningProblem problem = SyntheticProblem();
  const std::optional<PlanFound> alone = AnswerOf(problem);
  const std::optional<PlanFound> together = AnswerOf(problem, "exact", control);
  ASSERT_TRUE(alone.has_value() && together.has_value());
  EXPECT_GT(shared_count, 1);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
  EXPECT_EQ(alone->plan, together->plan);
  EXPECT_EQ(alone->search.expanded_state_count, together->search.expanded_state_count);
}

// States of searches for each number of micro-batches by itself.
int64_t StatesOneByOne(const PlanningProblem& problem) {
  int64_t states = 0;
  for (int64_t count = 1; count <= problem.global_batch_size(); ++count) {
    if (problem.global_batch_size() % count != 0) continue;
    PlanningRules rules = problem.rules();
    rules.micro_batch_count = count;
    const std::optional<PlanFound> found = AnswerOf(problem.WithRules(rules));
    if (found.has_value()) states += found->search.expanded_state_count;
  }
  return states;
}

// A plan of one candidate closes others, and whoever watches sees how far it is.
TEST(WeakPoint22, SearchesPruneAcrossCandidates) {
  const PlanningProblem problem = SyntheticProblem();
  int64_t report_count = 0;
  SearchProgress last;
  SearchControl control;
  control.on_progress = [&](const SearchProgress& progress) {
    EXPECT_GE(progress.expanded_state_count, last.expanded_state_count);
    EXPECT_GE(progress.done_candidate_count, last.done_candidate_count);
    last = progress;
    ++report_count;
  };
  const std::optional<PlanFound> found = AnswerOf(problem, "exact", control);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->search.termination, Termination::kOptimal);
  EXPECT_GT(report_count, 0);
  EXPECT_GT(last.total_candidate_count, 4);
  EXPECT_EQ(last.done_candidate_count, last.total_candidate_count);
  EXPECT_LT(2 * found->search.expanded_state_count, StatesOneByOne(problem));
}

// If nothing fits, no candidate is searched: the states are those that find a sufficient memory.
TEST(WeakPoint22, NothingFitsEndsEarly) {
  const PlanningProblem problem = SyntheticProblem();
  ASSERT_OK_AND_ASSIGN(const PlanningResult result,
                       FindPlan(problem.WithUsableMemory(Bytes::Of(1)), "exact"));
  const auto* const nothing = std::get_if<NothingFits>(&result);
  ASSERT_NE(nothing, nullptr);
  EXPECT_LT(nothing->search.expanded_state_count, StatesOneByOne(problem));
}

TEST(WeakPoint22, SearchesStopWhenTold) {
  const PlanningProblem problem = SyntheticProblem();
  const SearchControl control{.should_stop = [] { return true; }};
  ASSERT_OK_AND_ASSIGN(const PlanningResult result, FindPlan(problem, "exact", control));
  const SearchLimit limit =
      std::visit([](const auto& answer) { return answer.search.limit; }, result);
  EXPECT_EQ(limit, SearchLimit::kTime);
}

TEST(WeakPoint22, OtherPlansAndSmallerOnesAreGivenWhereAsked) {
  SyntheticOptions options;
  options.rules.top_plan_count = 4;
  options.rules.wants_memory_front = true;
  const std::optional<PlanFound> found = AnswerOf(SyntheticProblem(options));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->alternatives.size(), 3u);
  ASSERT_GT(found->memory_front.size(), 2u);
  EXPECT_LT(found->memory_front.back().prediction.peak_memory_upper,
            found->memory_front.front().prediction.peak_memory_upper);
}

}  // namespace
}  // namespace parplan
