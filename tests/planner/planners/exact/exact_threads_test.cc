// The search on several threads. ThreadSanitizer runs what is here, and not the tests of the search
// on one thread.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/cost/cost_model.h"
#include "planner/planners/exact/exact_search.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/random_problem.h"

namespace parplan {
namespace {

// Runs work on four threads, each with every fourth index, the last ones first, and counts the
// calls that had several indexes to share out.
class FourThreads {
 public:
  void operator()(int64_t count, const std::function<void(int64_t)>& work) {
    if (count > 1) ++shared_call_count_;
    std::vector<std::thread> threads;
    for (int64_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        for (int64_t index = count - 1; index >= 0; --index) {
          if (index % 4 == thread) work(index);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  int shared_call_count() const { return shared_call_count_; }

 private:
  std::atomic<int> shared_call_count_ = 0;
};

// Expects the same answer, and the same path to it, from one thread and from `threads`.
void ExpectAlike(const PlanningProblem& problem, FourThreads& threads) {
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  ASSERT_TRUE(costs.ok()) << costs.status();
  const std::optional<PlanningResult> alone = SearchExact(problem, *costs, {});
  const std::optional<PlanningResult> together =
      SearchExact(problem, *costs, {.parallel_for = std::ref(threads)});
  ASSERT_EQ(alone.has_value(), together.has_value());
  if (!alone.has_value()) return;
  const auto* one = std::get_if<PlanFound>(&*alone);
  const auto* other = std::get_if<PlanFound>(&*together);
  ASSERT_EQ(one == nullptr, other == nullptr);
  if (one == nullptr) return;
  EXPECT_EQ(one->plan, other->plan);
  EXPECT_EQ(one->search.expanded_state_count, other->search.expanded_state_count);
  EXPECT_EQ(one->search.bound, other->search.bound);
}

TEST(SearchExact, AnswersAlikeOnAnyNumberOfThreads) {
  FourThreads threads;
  for (uint64_t seed = 5'000; seed < 5'030; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    ExpectAlike(RandomProblem(seed), threads);
  }
  EXPECT_GT(threads.shared_call_count(), 10);
}

// Pipelines deep enough for uneven stages and uneven virtual stages.
TEST(SearchExact, AnswersAlikeOnAnyNumberOfThreadsWithUnevenStages) {
  FourThreads threads;
  for (const int decoder_count : {13, 22}) {
    for (const Target target : {Target::kMegatron, Target::kParplan}) {
      SCOPED_TRACE(absl::StrCat(decoder_count, " decoders, target ", static_cast<int>(target)));
      ExpectAlike(EstimatedProblem({.device_count = 16,
                                    .decoder_count = decoder_count,
                                    .hidden_size = 4096,
                                    .attention_head_count = 32,
                                    .global_batch_size = 32,
                                    .rules = {.target = target, .allow_estimates = true}}),
                  threads);
    }
  }
  EXPECT_GT(threads.shared_call_count(), 4);
}

}  // namespace
}  // namespace parplan
