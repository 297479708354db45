#include "solve/run_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <variant>

#include "base/error.h"
#include "planner/find_plan.h"
#include "tests/support/status_matchers.h"
#include "tests/support/synthetic_problem.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Goes on by a second at each look.
class TickingClock : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch() + Steady(); }
  absl::Duration Steady() const override { return absl::Seconds(ticks_++); }

 private:
  mutable std::atomic<int64_t> ticks_ = 0;
};

FinishedSearch Search(const PlannerFunction& planner, const SearchLimits& limits = {},
                      const SearchSetup& setup = {}) {
  return RunSearch(planner, SyntheticProblem(), "exact", limits, setup, Clock::Real());
}

TEST(RunSearch, GivesTheResultOfThePlanner) {
  const FinishedSearch search = Search(&FindPlan);
  ASSERT_OK_AND_ASSIGN(const PlanningResult alone, FindPlan(SyntheticProblem(), "exact"));
  ASSERT_OK(search.result);
  EXPECT_TRUE(std::get<PlanFound>(*search.result).plan == std::get<PlanFound>(alone).plan);
  EXPECT_FALSE(search.check_failed);
  EXPECT_EQ(search.expanded_state_count, SummaryOf(alone).expanded_state_count);
  EXPECT_TRUE(IsComplete(SummaryOf(*search.result)));
}

TEST(RunSearch, TheTimeLimitCountsFromTheCall) {
  int looks = 0;
  const PlannerFunction planner = [&looks](const PlanningProblem& problem, absl::string_view name,
                                           const SearchControl& control) {
    while (!control.should_stop()) ++looks;
    return FindPlan(problem, name, control);
  };
  const TickingClock clock;
  SearchLimits limits;
  limits.time_limit = absl::Seconds(10);
  const FinishedSearch search =
      RunSearch(planner, SyntheticProblem(), "exact", limits, SearchSetup(), clock);
  EXPECT_EQ(looks, 9);
  ASSERT_OK(search.result);
  EXPECT_FALSE(IsComplete(SummaryOf(*search.result)));
  EXPECT_GE(search.wall, absl::Seconds(10));
}

// Searches until it must end, for several plans, and counts its looks at the clock.
PlannerFunction PatientPlanner(int& looks) {
  return [&looks](const PlanningProblem& problem, absl::string_view name,
                  const SearchControl& control) {
    while (!control.should_stop()) ++looks;
    return FindPlan(problem, name);
  };
}

TEST(RunSearch, ChecksOfSeveralPlansHaveATenthOfTheTime) {
  SyntheticOptions options;
  options.rules.top_plan_count = 20;
  options.rules.wants_memory_front = true;
  const PlanningProblem problem = SyntheticProblem(options);
  ASSERT_OK_AND_ASSIGN(const PlanningResult all, FindPlan(problem, "exact"));
  const auto& found = std::get<PlanFound>(all);
  const size_t others = found.alternatives.size() + found.memory_front.size();
  ASSERT_GT(others, 8u);
  for (const int seconds : {50, 10'000}) {
    SCOPED_TRACE(seconds);
    int looks = 0;
    const TickingClock clock;
    SearchLimits limits;
    limits.time_limit = absl::Seconds(seconds);
    const FinishedSearch search =
        RunSearch(PatientPlanner(looks), problem, "exact", limits, SearchSetup(), clock);
    ASSERT_OK(search.result);
    EXPECT_EQ(looks, seconds * 9 / 10 - 1);
    // One look for the wall time of the search, then one before each check until the limit.
    const int checked = seconds / 10 - 2;
    const auto& answer = std::get<PlanFound>(*search.result);
    EXPECT_EQ(search.left_out_plan_count, std::max(0, static_cast<int>(others) - checked));
    EXPECT_EQ(answer.alternatives.size() + answer.memory_front.size(),
              others - search.left_out_plan_count);
    EXPECT_EQ(search.left_out_plan_count > 0, seconds == 50);
  }
}

// The check prices the problem again.
TEST(RunSearch, KeepsTimeForTheCheck) {
  const PlannerFunction planner = [](const PlanningProblem& problem, absl::string_view name,
                                     const SearchControl& control) {
    const absl::Duration start = ThreadCpuTime();
    while (ThreadCpuTime() - start < absl::Milliseconds(50)) {
    }
    while (!control.should_stop()) {
    }
    return FindPlan(problem, name, control);
  };
  SearchLimits limits;
  limits.time_limit = absl::Milliseconds(500);
  const absl::Duration start = Clock::Real().Steady();
  ASSERT_OK(Search(planner, limits).result);
  EXPECT_GE(Clock::Real().Steady() - start, absl::Milliseconds(375));
  // The search ended 50 ms early; its wall time is without the check.
  EXPECT_LT(Search(planner, limits).wall, absl::Milliseconds(500));
}

TEST(RunSearch, TheCallerCanEndIt) {
  SearchSetup setup;
  setup.should_stop = [] { return true; };
  const FinishedSearch search = Search(&FindPlan, SearchLimits(), setup);
  ASSERT_OK(search.result);
  EXPECT_EQ(SummaryOf(*search.result).limit, SearchLimit::kTime);
}

TEST(RunSearch, HandsOnTheLimitOfStates) {
  SearchLimits limits;
  limits.max_state_count = 17;
  int64_t given = 0;
  Search(
      [&given](const PlanningProblem& problem, absl::string_view name,
               const SearchControl& control) {
        given = control.max_state_count;
        return FindPlan(problem, name, control);
      },
      limits);
  EXPECT_EQ(given, 17);
}

TEST(RunSearch, LendsHelpersIfThereAreAny) {
  WorkerThreads none(0);
  WorkerThreads one(1);
  for (WorkerThreads* const helpers : {static_cast<WorkerThreads*>(nullptr), &none, &one}) {
    SearchSetup setup;
    setup.helpers = helpers;
    const FinishedSearch search = Search(
        [helpers, &one](const PlanningProblem& problem, absl::string_view name,
                        const SearchControl& control) {
          EXPECT_EQ(control.parallel_for != nullptr, helpers == &one);
          if (control.parallel_for) {
            // Each piece waits for the other: one thread alone would never end.
            std::atomic<int> begun = 0;
            control.parallel_for(2, [&begun](int64_t) {
              ++begun;
              while (begun < 2) std::this_thread::yield();
            });
          }
          return FindPlan(problem, name, control);
        },
        SearchLimits(), setup);
    EXPECT_OK(search.result);
  }
}

TEST(RunSearch, ReportsProgressAsTheContractWritesIt) {
  std::vector<v1::SearchProgress> reports;
  SearchSetup setup;
  setup.on_progress = [&reports](const v1::SearchProgress& report) { reports.push_back(report); };
  Search(
      [](const PlanningProblem& problem, absl::string_view name, const SearchControl& control) {
        SearchProgress progress;
        progress.done_candidate_count = 2;
        progress.total_candidate_count = 5;
        progress.expanded_state_count = 100;
        progress.bound = Seconds::Of(1.5);
        control.on_progress(progress);
        progress.incumbent = Seconds::Of(2.0);
        control.on_progress(progress);
        return FindPlan(problem, name, SearchControl());
      },
      SearchLimits(), setup);
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].done_candidate_count(), 2);
  EXPECT_EQ(reports[0].total_candidate_count(), 5);
  EXPECT_EQ(reports[0].expanded_state_count(), 100);
  EXPECT_FALSE(reports[0].has_incumbent_step_duration());
  EXPECT_EQ(reports[0].gap_ratio(), 1.0);
  EXPECT_EQ(reports[1].incumbent_step_duration().seconds(), 2);
  EXPECT_EQ(reports[1].gap_ratio(), 0.25);
}

TEST(RunSearch, RefusesAResultThatIsNotWhatItPromises) {
  const FinishedSearch search =
      Search([](const PlanningProblem& problem, absl::string_view name,
                const SearchControl& control) -> absl::StatusOr<PlanningResult> {
        absl::StatusOr<PlanningResult> result = FindPlan(problem, name, control);
        Prediction& prediction = std::get<PlanFound>(*result).prediction;
        prediction.step = prediction.step * 0.5;
        return result;
      });
  EXPECT_TRUE(search.check_failed);
  EXPECT_GT(search.expanded_state_count, 0);
  EXPECT_EQ(GetErrorDetail(search.result.status())->reason, Reason::kCheckFailed);
}

TEST(RunSearch, HandsOnTheErrorOfThePlanner) {
  const FinishedSearch search = Search([](const PlanningProblem&, absl::string_view,
                                          const SearchControl&) -> absl::StatusOr<PlanningResult> {
    return FieldError(Reason::kSpecInvalid, "planner", "is unknown");
  });
  EXPECT_FALSE(search.check_failed);
  EXPECT_THAT(search.result, StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(NothingFitsError, NamesBothMinimaAndWhatIsProved) {
  const PlanningProblem problem = SyntheticProblem();
  NothingFits nothing;
  nothing.smallest_device_memory = Bytes::Of(48'000'000'000);
  const absl::Status memory = NothingFitsError(problem, "exact", nothing);
  EXPECT_THAT(
      memory,
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("`exact`"), HasSubstr("48.0 GB"), HasSubstr("48000000000 bytes"),
                     HasSubstr("no smaller ones (proved)"), HasSubstr("Use more devices"))));
  EXPECT_TRUE(HasNoCandidates(memory));
  const auto facts = GetErrorDetail(memory)->metadata;
  EXPECT_EQ(facts.at("smallestDeviceMemoryBytes"), "48000000000");
  EXPECT_EQ(facts.at("memoryIsProved"), "true");
  EXPECT_EQ(facts.count("smallestDeviceCount"), 0u);
  nothing.memory_is_proved = false;
  nothing.smallest_device_count = 24;
  const absl::Status both = NothingFitsError(problem, "exact", nothing);
  EXPECT_THAT(both,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("24 of these devices instead of 8"),
                             HasSubstr("no fewer (proved)"), Not(HasSubstr("no smaller ones")))));
  EXPECT_EQ(GetErrorDetail(both)->metadata.at("smallestDeviceCount"), "24");
  EXPECT_EQ(GetErrorDetail(both)->metadata.at("memoryIsProved"), "false");
}

}  // namespace
}  // namespace parplan
