// SearchHere: limits, threads, and what is said where no plan was found.

#include "clients/planctl/offline/local_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <optional>
#include <string>
#include <variant>

#include "base/error.h"
#include "clients/planctl/commands/interrupt.h"
#include "clients/planctl/offline/offline_planner.h"
#include "proto/wire/plan_wire.h"
#include "tests/clients/planctl/commands/planctl_test_files.h"
#include "tests/support/status_matchers.h"

namespace parplan::planctl {
namespace {

using ::testing::HasSubstr;

PlanningProblem ExampleProblem() {
  absl::StatusOr<PlanningProblem> problem = OfflineProblem(ExampleSpec(), ExampleProfiles());
  EXPECT_OK(problem);
  return *std::move(problem);
}

TEST(SearchHere, GivesTheSameAnswerOnAnyNumberOfThreads) {
  const PlanningProblem problem = ExampleProblem();
  ASSERT_OK_AND_ASSIGN(const LocalSearch alone, SearchHere(problem, kDefaultPlanner, {}));
  const auto& first = std::get<PlanFound>(alone.result);
  for (const int thread_count : {2, 5}) {
    SearchWatch watch;
    watch.thread_count = thread_count;
    ASSERT_OK_AND_ASSIGN(const LocalSearch search, SearchHere(problem, kDefaultPlanner, {}, watch));
    const auto& found = std::get<PlanFound>(search.result);
    EXPECT_TRUE(found.plan == first.plan);
    EXPECT_EQ(found.prediction.step, first.prediction.step);
    EXPECT_EQ(found.search.bound, first.search.bound);
  }
}

TEST(SearchHere, SaysThatItWasInterrupted) {
  SearchWatch watch;
  watch.is_cancelled = [] { return true; };
  ASSERT_OK_AND_ASSIGN(const LocalSearch search, SearchHere(ExampleProblem(), "dp+pp", {}, watch));
  const auto* stopped = std::get_if<StoppedEmpty>(&search.result);
  ASSERT_NE(stopped, nullptr);
  EXPECT_EQ(stopped->search.limit, SearchLimit::kCancelled);
  EXPECT_THAT(StoppedEmptyError(stopped->search),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("interrupted")));
  SearchSummary of_time;
  of_time.limit = SearchLimit::kTime;
  EXPECT_THAT(StoppedEmptyError(of_time),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("--time-limit")));
}

TEST(ViewOfPlan, HasThePlansBesideTheOneThatWasSigned) {
  ASSERT_OK_AND_ASSIGN(const PlanView view, PlanOffline(ExampleSpec(), ExampleProfiles()));
  const PlanningProblem problem = ExampleProblem();
  v1::Plan plan;
  plan.mutable_signed_plan()->set_payload(view.payload.SerializeAsString());
  *plan.add_alternatives() = RivalPlanToProto({view.plan, view.prediction}, problem.model());
  *plan.add_memory_front() = plan.alternatives(0);
  plan.add_notes("a note");
  ASSERT_OK_AND_ASSIGN(const PlanView again, ViewOfPlan(plan));
  ASSERT_EQ(again.alternatives.size(), 1u);
  EXPECT_TRUE(again.alternatives.front().plan == view.plan);
  EXPECT_EQ(again.alternatives.front().peak_memory, view.prediction.peak_memory);
  EXPECT_NEAR(again.alternatives.front().SlowerThan(view.prediction.samples_per_second), 0.0,
              1e-12);
  EXPECT_EQ(again.memory_front.size(), 1u);
  EXPECT_EQ(again.notes, std::vector<std::string>{"a note"});

  // Whatever is wrong with a plan beside the one that was signed, it is the server's message that
  // is malformed.
  const auto expect_malformed = [](const v1::Plan& wrong, const char* field) {
    const absl::Status status = ViewOfPlan(wrong).status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(field)));
    const std::optional<ErrorDetail> detail = GetErrorDetail(status);
    EXPECT_TRUE(detail.has_value() && detail->reason == Reason::kPayloadMalformed) << field;
  };
  v1::Plan timeless = plan;
  timeless.mutable_memory_front(0)->mutable_step_duration()->set_seconds(int64_t{1} << 62);
  expect_malformed(timeless, "memory_front[0].step_duration");
  timeless.mutable_alternatives(0)->mutable_step_duration()->set_seconds(int64_t{1} << 62);
  expect_malformed(timeless, "alternatives[0].step_duration");
  plan.mutable_alternatives(0)->clear_stages();
  expect_malformed(plan, "stages");
}

TEST(InterruptWatch, RemembersTheFirstSignalAndThenLetsItBe) {
  {
    const InterruptWatch watch;
    EXPECT_FALSE(InterruptWatch::interrupted());
    std::raise(SIGINT);
    EXPECT_TRUE(InterruptWatch::interrupted());
  }
  const InterruptWatch another;
  EXPECT_FALSE(InterruptWatch::interrupted());
}

TEST(InterruptWatchDeathTest, TheSecondSignalEndsTheProgram) {
  EXPECT_EXIT(
      {
        const InterruptWatch watch;
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace parplan::planctl
