// Laws of every planner.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/check/result_check.h"
#include "planner/find_plan.h"
#include "planner/planners/baselines/baselines.h"
#include "tests/support/random_problem.h"
#include "tests/support/status_matchers.h"
#include "tests/support/synthetic_problem.h"

namespace parplan {
namespace {

// Planners for which more memory or faster links never give a slower plan.
//
// `exact`, the grids and the planners without a pipeline search their whole space. The others solve
// stages one by one and cut them by balance, so that with more memory or faster links another,
// slower cut may come first.
const std::set<std::string>& Monotone() {
  static const auto* const names =
      new std::set<std::string>{"exact", "dp", "sdp", "tp", "dp+tp", "megatron", "fsdp-best"};
  return *names;
}
// These take longer than all others.
bool IsIntegerProgram(const std::string& planner) {
  return planner == "min-memory-ilp" || planner == "alpa-like" || planner == "colossal-auto-like";
}

// Small, so that every planner takes milliseconds; integer programs grow fastest.
RandomProblemShape SizeFor(const std::string& planner) {
  RandomProblemShape shape;
  shape.max_plan_count = 1e5;
  shape.max_strategy_count = 16;
  if (IsIntegerProgram(planner)) {
    shape.max_layer_count = 3;
    shape.max_device_count = 2;
  }
  return shape;
}

class Conformance : public testing::TestWithParam<std::string> {
 protected:
  // Nothing when the planner has no plan whatever the memory.
  std::optional<PlanningResult> Find(const PlanningProblem& problem,
                                     const SearchControl& control = {}) {
    absl::StatusOr<PlanningResult> result = FindPlan(problem, GetParam(), control);
    if (result.ok()) return *std::move(result);
    EXPECT_THAT(result, StatusIs(absl::StatusCode::kFailedPrecondition, testing::_));
    return std::nullopt;
  }

  SyntheticOptions Fixed() const {
    SyntheticOptions options{.device_count = IsIntegerProgram(GetParam()) ? 2 : 4,
                             .decoder_count = 3};
    options.global_batch_size = 4;
    options.device_memory = Bytes::Of(int64_t{3} << 30);
    return options;
  }

  // Calls `law` with problems to which the planner has an answer.
  void ForProblems(int wanted,
                   const std::function<void(const PlanningProblem&, const PlanningResult&)>& law) {
    // Programs take much longer than anything else here.
    if (IsIntegerProgram(GetParam())) wanted = (wanted + 4) / 5;
    int count = 0;
    for (uint64_t seed = 1; count < wanted && seed < 1000; ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed);
      const PlanningProblem problem = RandomProblem(seed, SizeFor(GetParam()));
      const std::optional<PlanningResult> result = Find(problem);
      if (!result) continue;
      ++count;
      law(problem, *result);
      if (HasFatalFailure()) return;
    }
    EXPECT_GE(count, wanted);
  }
};

Seconds PerSample(const PlanningResult& result) {
  const auto* found = std::get_if<PlanFound>(&result);
  if (found == nullptr) return Seconds::Infinite();
  return found->prediction.step / static_cast<double>(found->plan.global_batch_size);
}

const SearchSummary& SummaryOf(const PlanningResult& result) {
  return std::visit([](const auto& answer) -> const SearchSummary& { return answer.search; },
                    result);
}

// The same plan, proof and counts. Notes may name layers.
void ExpectSame(const PlanningResult& a, const PlanningResult& b) {
  ASSERT_EQ(a.index(), b.index());
  EXPECT_EQ(SummaryOf(a).expanded_state_count, SummaryOf(b).expanded_state_count);
  EXPECT_EQ(SummaryOf(a).pruned_state_count, SummaryOf(b).pruned_state_count);
  EXPECT_EQ(SummaryOf(a).candidate_count, SummaryOf(b).candidate_count);
  EXPECT_EQ(SummaryOf(a).bound, SummaryOf(b).bound);
  EXPECT_EQ(SummaryOf(a).termination, SummaryOf(b).termination);
  if (const auto* found = std::get_if<PlanFound>(&a)) {
    const auto& other = std::get<PlanFound>(b);
    EXPECT_EQ(found->plan, other.plan);
    EXPECT_EQ(found->prediction.step, other.prediction.step);
    ASSERT_EQ(found->alternatives.size(), other.alternatives.size());
    for (size_t i = 0; i < found->alternatives.size(); ++i) {
      EXPECT_EQ(found->alternatives[i].plan, other.alternatives[i].plan);
    }
  }
  if (const auto* nothing = std::get_if<NothingFits>(&a)) {
    const auto& other = std::get<NothingFits>(b);
    EXPECT_EQ(nothing->smallest_usable_memory, other.smallest_usable_memory);
    EXPECT_EQ(nothing->smallest_device_count, other.smallest_device_count);
  }
}

// Work on so many threads, which take indices as they come.
ParallelFor Threads(int thread_count) {
  return [thread_count](int64_t count, const std::function<void(int64_t)>& work) {
    std::atomic<int64_t> next = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < thread_count; ++i) {
      threads.emplace_back([&] {
        for (int64_t index = next++; index < count; index = next++) work(index);
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
}

TEST_P(Conformance, AnswersPassTheCheck) {
  int found_count = 0;
  ForProblems(100, [&](const PlanningProblem& problem, const PlanningResult& result) {
    EXPECT_OK(CheckResult(problem, result));
    found_count += std::holds_alternative<PlanFound>(result) ? 1 : 0;
  });
  EXPECT_GT(found_count, 2);
}

TEST_P(Conformance, RivalsAndFrontsPassTheCheck) {
  const auto gives = [this](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), GetParam()) != names.end();
  };
  const bool has_front = gives(PlannersWithFront());
  if (!gives(PlannersWithAlternatives())) GTEST_SKIP() << "gives one plan";
  ForProblems(20, [&](const PlanningProblem& problem, const PlanningResult&) {
    PlanningRules rules = problem.rules();
    rules.top_plan_count = 5;
    rules.wants_memory_front = has_front;
    const PlanningProblem more = problem.WithRules(rules);
    const std::optional<PlanningResult> result = Find(more);
    ASSERT_TRUE(result.has_value());
    EXPECT_OK(CheckResult(more, *result));
  });
}

// Silence would look like an answer.
TEST_P(Conformance, PlansItDoesNotGiveAreRefused) {
  const auto refusal = [this](const char* field) {
    return StatusIs(absl::StatusCode::kInvalidArgument,
                    testing::AllOf(testing::HasSubstr(field), testing::HasSubstr(GetParam()),
                                   testing::HasSubstr("exact")));
  };
  SyntheticOptions options = Fixed();
  options.rules.top_plan_count = 2;
  const bool is_exact = GetParam() == "exact";
  const absl::StatusOr<PlanningResult> more = FindPlan(SyntheticProblem(options), GetParam());
  if (!is_exact && !IsIntegerProgram(GetParam())) {
    EXPECT_THAT(more, refusal("options.top_plan_count"));
  } else {
    EXPECT_OK(more);
  }
  options.rules.top_plan_count = 1;
  options.rules.wants_memory_front = true;
  const absl::StatusOr<PlanningResult> front = FindPlan(SyntheticProblem(options), GetParam());
  if (is_exact) {
    ASSERT_OK(front);
    EXPECT_FALSE(std::get<PlanFound>(*front).memory_front.empty());
  } else {
    EXPECT_THAT(front, refusal("options.wants_memory_front"));
  }
}

TEST_P(Conformance, AnAlphaIsForThePlannerThatHasOne) {
  SyntheticOptions options = Fixed();
  options.rules.ilp_alpha_bytes_per_second = 1e9;
  const PlanningProblem problem = SyntheticProblem(options);
  const absl::StatusOr<PlanningResult> result = FindPlan(problem, GetParam());
  if (GetParam() == "min-memory-ilp") {
    ASSERT_OK(result);
    EXPECT_OK(CheckResult(problem, *result));
    return;
  }
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kInvalidArgument,
                               testing::HasSubstr("options.ilp_alpha_bytes_per_second: planner")));
  EXPECT_TRUE(Find(problem.WithRules(RulesForOnePlan(problem.rules(), GetParam()))).has_value());
}

// The planners of the Galvatron papers.
bool IsOfThePapers(const std::string& planner) { return planner.rfind("galvatron", 0) == 0; }

TEST_P(Conformance, OptionsOfThePapersAreForTheirPlanners) {
  const absl::Span<const absl::string_view> baselines = PaperBaselineNames();
  const bool is_baseline =
      std::find(baselines.begin(), baselines.end(), GetParam()) != baselines.end();
  const auto expect = [&](const PlanningRules& rules, const char* field, bool is_taken) {
    SyntheticOptions options = Fixed();
    options.rules = rules;
    const PlanningProblem problem = SyntheticProblem(options);
    const absl::StatusOr<PlanningResult> result = FindPlan(problem, GetParam());
    if (is_taken) {
      ASSERT_OK(result);
      EXPECT_OK(CheckResult(problem, *result));
    } else {
      EXPECT_THAT(result, StatusIs(absl::StatusCode::kInvalidArgument,
                                   testing::HasSubstr(std::string(field) + ": planner")));
    }
    EXPECT_TRUE(Find(problem.WithRules(RulesForOnePlan(problem.rules(), GetParam()))).has_value());
  };
  PlanningRules rules = Fixed().rules;
  rules.partitioner = Partitioner::kEven;
  expect(rules, "options.partitioner", IsOfThePapers(GetParam()) || is_baseline);
  rules = Fixed().rules;
  rules.memory_granule = Bytes::Of(32 << 20);
  expect(rules, "options.memory_granule_bytes", IsOfThePapers(GetParam()));
  rules = Fixed().rules;
  rules.fused_layer_count = 2;
  expect(rules, "options.fused_layer_count", IsOfThePapers(GetParam()));
}

TEST_P(Conformance, SameQuestionSameAnswer) {
  ForProblems(30, [&](const PlanningProblem& problem, const PlanningResult& result) {
    ExpectSame(result, *Find(problem));
  });
}

TEST_P(Conformance, OneThreadAnswersAsSixteenDo) {
  ForProblems(20, [&](const PlanningProblem& problem, const PlanningResult& result) {
    ExpectSame(result, *Find(problem, {.parallel_for = Threads(16)}));
  });
}

TEST_P(Conformance, RenamingChangesNothing) {
  SyntheticOptions options = Fixed();
  const std::optional<PlanningResult> before = Find(SyntheticProblem(options));
  options.name = "another";
  const std::optional<PlanningResult> after = Find(SyntheticProblem(options));
  ASSERT_EQ(before.has_value(), after.has_value());
  if (before) ExpectSame(*before, *after);
}

TEST_P(Conformance, SplittingARunChangesNothing) {
  SyntheticOptions options = Fixed();
  const std::optional<PlanningResult> whole = Find(SyntheticProblem(options));
  options.split_runs = true;
  const std::optional<PlanningResult> split = Find(SyntheticProblem(options));
  ASSERT_EQ(whole.has_value(), split.has_value());
  if (whole) {
    EXPECT_NEAR(PerSample(*whole) / PerSample(*split), 1.0, 1e-12);
  }
}

TEST_P(Conformance, MoreMemoryIsNeverSlower) {
  if (!Monotone().contains(GetParam())) GTEST_SKIP() << "not promised";
  ForProblems(30, [&](const PlanningProblem& problem, const PlanningResult& result) {
    Seconds before = PerSample(result);
    for (const double factor : {1.05, 1.3, 2.0, 10.0}) {
      const Seconds now = PerSample(*Find(
          problem.WithUsableMemory(Bytes::Ceil(problem.usable_memory().as_double() * factor))));
      EXPECT_LE(now.value(), before.value() * (1.0 + 1e-9)) << factor;
      before = now;
    }
  });
}

TEST_P(Conformance, FasterLinksAreNeverSlower) {
  if (!Monotone().contains(GetParam())) GTEST_SKIP() << "not promised";
  SyntheticOptions options{.device_count = 4, .devices_per_node = 2, .decoder_count = 4};
  options.device_memory = Bytes::Of(int64_t{3} << 30);
  options.rules.max_tensor_parallel_degree = 4;
  Seconds before = Seconds::Infinite();
  for (const double speed : {0.1, 0.3, 1.0, 3.0, 10.0}) {
    options.link_speed = speed;
    const std::optional<PlanningResult> result = Find(SyntheticProblem(options));
    ASSERT_TRUE(result.has_value());
    const Seconds now = PerSample(*result);
    EXPECT_LE(now.value(), before.value() * (1.0 + 1e-9)) << speed;
    before = now;
  }
  EXPECT_TRUE(before.is_finite());
}

TEST_P(Conformance, WhatNothingFitsAsksForIsEnough) {
  int nothing_count = 0;
  ForProblems(40, [&](const PlanningProblem& problem, const PlanningResult&) {
    const PlanningProblem tiny = problem.WithUsableMemory(Bytes::Of(1 << 20));
    const std::optional<PlanningResult> result = Find(tiny);
    ASSERT_TRUE(result.has_value());
    EXPECT_OK(CheckResult(tiny, *result));
    const auto* nothing = std::get_if<NothingFits>(&*result);
    ASSERT_NE(nothing, nullptr);
    ++nothing_count;
    const Bytes least = nothing->smallest_usable_memory;
    EXPECT_TRUE(std::holds_alternative<PlanFound>(*Find(problem.WithUsableMemory(least))));
    if (!nothing->memory_is_proved) return;
    const std::optional<PlanningResult> less = Find(problem.WithUsableMemory(least - Bytes::Of(1)));
    ASSERT_TRUE(less.has_value());
    EXPECT_TRUE(std::holds_alternative<NothingFits>(*less));
  });
  EXPECT_GT(nothing_count, 5);
}

TEST_P(Conformance, ALimitEndsItWithTheBestSoFar) {
  ForProblems(20, [&](const PlanningProblem& problem, const PlanningResult& whole) {
    for (const int64_t most : {1, 30, 1000}) {
      const std::optional<PlanningResult> result = Find(problem, {.max_state_count = most});
      ASSERT_TRUE(result.has_value());
      EXPECT_OK(CheckResult(problem, *result));
      // A planner that does not minimise time may find a faster plan before its last.
      if (GetParam() == "min-memory-ilp") continue;
      EXPECT_GE(PerSample(*result).value(), PerSample(whole).value() * (1.0 - 1e-9));
    }
  });
}

TEST_P(Conformance, WhoeverWatchesCanStopIt) {
  ForProblems(20, [&](const PlanningProblem& problem, const PlanningResult& whole) {
    for (const int patience : {0, 1, 5}) {
      int questions = 0;
      const SearchControl control{.should_stop = [&] { return ++questions > patience; }};
      const std::optional<PlanningResult> result = Find(problem, control);
      ASSERT_TRUE(result.has_value());
      EXPECT_OK(CheckResult(problem, *result));
      if (std::holds_alternative<StoppedEmpty>(*result)) {
        EXPECT_EQ(SummaryOf(*result).limit, SearchLimit::kTime);
      }
      // A planner that does not minimise time may find a faster plan before its last.
      if (GetParam() == "min-memory-ilp") continue;
      EXPECT_GE(PerSample(*result).value(), PerSample(whole).value() * (1.0 - 1e-9));
    }
  });
}

TEST_P(Conformance, ProgressOnlyImproves) {
  ForProblems(20, [&](const PlanningProblem& problem, const PlanningResult&) {
    std::vector<SearchProgress> reports;
    const SearchControl control{
        .on_progress = [&](const SearchProgress& report) { reports.push_back(report); }};
    const std::optional<PlanningResult> result = Find(problem, control);
    const auto* found = std::get_if<PlanFound>(&*result);
    for (size_t i = 0; i < reports.size(); ++i) {
      EXPECT_LE(reports[i].done_candidate_count, reports[i].total_candidate_count);
      if (i == 0) continue;
      EXPECT_GE(reports[i].done_candidate_count, reports[i - 1].done_candidate_count);
      EXPECT_GE(reports[i].expanded_state_count, reports[i - 1].expanded_state_count);
      if (problem.GlobalBatchSizes().size() > 1 || !reports[i - 1].incumbent) continue;
      ASSERT_TRUE(reports[i].incumbent.has_value());
      EXPECT_LE(*reports[i].incumbent, *reports[i - 1].incumbent);
      EXPECT_GE(reports[i].bound.value(), reports[i - 1].bound.value() * (1.0 - 1e-9));
    }
    if (found != nullptr && problem.GlobalBatchSizes().size() == 1 && !reports.empty()) {
      EXPECT_LE(reports.back().bound.value(), found->prediction.step.value() * (1.0 + 1e-9));
    }
  });
}

// `exact` has all their plans in its space.
TEST_P(Conformance, ExactIsNeverSlower) {
  int found_count = 0;
  ForProblems(150, [&](const PlanningProblem& problem, const PlanningResult& result) {
    ASSERT_OK_AND_ASSIGN(const PlanningResult exact, FindPlan(problem, "exact"));
    EXPECT_LE(PerSample(exact).value(), PerSample(result).value() * (1.0 + 1e-9));
    found_count += std::holds_alternative<PlanFound>(result) ? 1 : 0;
  });
  EXPECT_GT(found_count, 5);
}

std::string TestName(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& letter : name) {
    if (letter == '-' || letter == '+') letter = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Planners, Conformance, testing::ValuesIn(PlannerNames()), TestName);

}  // namespace
}  // namespace parplan
