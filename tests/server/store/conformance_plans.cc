// Conformance of every store: plans.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/store/store_conformance.h"

namespace parplan {
namespace {

TEST_P(StoreConformance, APlanComesBackExactly) {
  const PlanRecord plan = SamplePlan("c", "p", 20000);
  EXPECT_THAT(store().PutPlan(plan), IsOkAndHolds(plan));
  EXPECT_THAT(store().GetPlan(plan.name), IsOkAndHolds(plan));
  Reopen();
  EXPECT_THAT(store().GetPlan(plan.name), IsOkAndHolds(plan));
  const auto none = store().GetPlan("clusters/c/plans/none");
  EXPECT_THAT(none, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(ReasonOf(none), Reason::kResourceNotFound);
}

TEST_P(StoreConformance, ARepeatedRequestGivesTheFirstPlan) {
  const PlanRecord first = SamplePlan("c", "first");
  ASSERT_OK(store().PutPlan(first));
  PlanRecord again = SamplePlan("c", "again");
  again.request_id = first.request_id;
  again.plan_key = first.plan_key;
  EXPECT_THAT(store().PutPlan(again), IsOkAndHolds(first));
  EXPECT_THAT(store().FindPlanByRequestId("c", "", first.request_id),
              IsOkAndHolds(testing::Optional(first)));
  EXPECT_THAT(store().CountPlans("c"), IsOkAndHolds(1));
}

TEST_P(StoreConformance, ARequestIdForAnotherQuestionOrJobIsRefused) {
  const PlanRecord first = SamplePlan("c", "first");
  ASSERT_OK(store().PutPlan(first));
  PlanRecord other_key = SamplePlan("c", "second");
  other_key.request_id = first.request_id;
  EXPECT_EQ(ReasonOf(store().PutPlan(other_key)), Reason::kRequestIdReused);
  PlanRecord other_job = other_key;
  other_job.plan_key = first.plan_key;
  other_job.job_id = "another";
  EXPECT_EQ(ReasonOf(store().PutPlan(other_job)), Reason::kRequestIdReused);
  EXPECT_THAT(store().CountPlans("c"), IsOkAndHolds(1));
  // Another cluster has request ids of its own.
  PlanRecord elsewhere = SamplePlan("c2", "second");
  elsewhere.request_id = first.request_id;
  EXPECT_OK(store().PutPlan(elsewhere));
}

TEST_P(StoreConformance, PlansWithoutRequestIdAreAllStored) {
  for (const char* id : {"p1", "p2"}) {
    PlanRecord plan = SamplePlan("c", id);
    plan.plan_key = "same";
    plan.request_id.clear();
    EXPECT_THAT(store().PutPlan(plan), IsOkAndHolds(plan));
  }
  EXPECT_THAT(store().CountPlans("c"), IsOkAndHolds(2));
  EXPECT_THAT(store().FindPlanByRequestId("c", "", ""), IsOkAndHolds(std::nullopt));
}

TEST_P(StoreConformance, ATakenPlanNameIsRefused) {
  PlanRecord plan = SamplePlan("c", "p");
  ASSERT_OK(store().PutPlan(plan));
  plan.request_id = "another";
  EXPECT_THAT(store().PutPlan(plan), StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST_P(StoreConformance, AKeyFindsTheNewestPlanStillValid) {
  PlanRecord older = SamplePlan("c", "older");
  PlanRecord newer = SamplePlan("c", "newer");
  older.plan_key = newer.plan_key = "key";
  older.expire_time = SampleTime(200);
  newer.expire_time = SampleTime(100);
  ASSERT_OK(store().PutPlan(older));
  ASSERT_OK(store().PutPlan(newer));
  const auto find = [this](int64_t seconds) {
    return store().FindPlanByKey("c", "key", "job", SampleTime(seconds));
  };
  EXPECT_THAT(find(99), IsOkAndHolds(testing::Optional(newer)));
  EXPECT_THAT(find(100), IsOkAndHolds(testing::Optional(older)));
  EXPECT_THAT(find(199), IsOkAndHolds(testing::Optional(older)));
  EXPECT_THAT(find(200), IsOkAndHolds(std::nullopt));
  const absl::Time now = SampleTime(0);
  EXPECT_THAT(store().FindPlanByKey("c", "other", "job", now), IsOkAndHolds(std::nullopt));
  EXPECT_THAT(store().FindPlanByKey("c", "key", "other", now), IsOkAndHolds(std::nullopt));
  EXPECT_THAT(store().FindPlanByKey("other", "key", "job", now), IsOkAndHolds(std::nullopt));
}

TEST_P(StoreConformance, ListsHoldThePlansOfOneClusterNewestFirst) {
  const PlanRecord first = SamplePlan("c", "p1");
  const PlanRecord second = SamplePlan("c", "p2");
  ASSERT_OK(store().PutPlan(first));
  ASSERT_OK(store().PutPlan(SamplePlan("other", "p3")));
  ASSERT_OK(store().PutPlan(second));
  ASSERT_OK_AND_ASSIGN(const auto page, store().ListPlans("c", {}));
  EXPECT_THAT(page.records, testing::ElementsAre(second, first));
  EXPECT_THAT(store().CountPlans("c"), IsOkAndHolds(2));
  EXPECT_THAT(store().CountPlans("none"), IsOkAndHolds(0));
}

TEST_P(StoreConformance, ExpiredPlansAreDeletedSoonestFirstUpToTheLimit) {
  for (int i = 0; i < 5; ++i) {
    PlanRecord plan = SamplePlan("c", absl::StrCat(i));
    plan.expire_time = SampleTime(100 - i);
    ASSERT_OK(store().PutPlan(plan));
  }
  EXPECT_THAT(store().DeleteExpiredPlans(SampleTime(99), 0), IsOkAndHolds(0));
  EXPECT_THAT(store().DeleteExpiredPlans(SampleTime(99), 2), IsOkAndHolds(2));
  EXPECT_FALSE(store().GetPlan("clusters/c/plans/4").ok());
  EXPECT_FALSE(store().GetPlan("clusters/c/plans/3").ok());
  EXPECT_OK(store().GetPlan("clusters/c/plans/2"));
  // A plan that expires at the very moment goes as well.
  EXPECT_THAT(store().DeleteExpiredPlans(SampleTime(99), 100), IsOkAndHolds(2));
  EXPECT_OK(store().GetPlan("clusters/c/plans/0"));
  EXPECT_THAT(store().DeleteExpiredPlans(SampleTime(99), 100), IsOkAndHolds(0));
}

TEST_P(StoreConformance, ExpiredPlansThatWereExecutedStay) {
  ASSERT_OK(store().PutPlan(SamplePlan("c", "executed")));
  ASSERT_OK(store().PutPlan(SamplePlan("c", "idle")));
  const std::string executed = SamplePlan("c", "executed").name;
  ASSERT_OK(store().CreateExecution(SampleExecution(executed, "e")));
  EXPECT_THAT(store().DeleteExpiredPlans(absl::InfiniteFuture(), 100), IsOkAndHolds(1));
  EXPECT_OK(store().GetPlan(executed));
}

TEST_P(StoreConformance, PlansAreFoundByWhatTheyAnswer) {
  PlanRecord older = SamplePlan("c", "older");
  older.answer_key = "answer";
  PlanRecord newer = SamplePlan("c", "newer");
  newer.answer_key = "answer";
  newer.job_id = "another";
  ASSERT_OK(store().PutPlan(older));
  EXPECT_THAT(store().FindPlanByAnswer("c", "answer"), IsOkAndHolds(testing::Optional(older)));
  ASSERT_OK(store().PutPlan(newer));
  ASSERT_OK(store().PutPlan(SamplePlan("c", "of a search that was limited")));
  Reopen();
  EXPECT_THAT(store().FindPlanByAnswer("c", "answer"), IsOkAndHolds(testing::Optional(newer)));
  EXPECT_THAT(store().FindPlanByAnswer("c", "other"), IsOkAndHolds(std::nullopt));
  EXPECT_THAT(store().FindPlanByAnswer("c2", "answer"), IsOkAndHolds(std::nullopt));
  EXPECT_THAT(store().FindPlanByAnswer("c", ""), IsOkAndHolds(std::nullopt));
}

TEST_P(StoreConformance, RequestIdsOfPlansBelongToTheirOwners) {
  PlanRecord mine = SamplePlan("c", "mine");
  mine.owner = "cn:me";
  PlanRecord theirs = SamplePlan("c", "theirs");
  theirs.owner = "cn:you";
  theirs.request_id = mine.request_id;
  PlanRecord nobodys = SamplePlan("c", "nobodys");
  nobodys.request_id = mine.request_id;
  for (const PlanRecord& plan : {mine, theirs, nobodys}) {
    EXPECT_THAT(store().PutPlan(plan), IsOkAndHolds(plan));
  }
  Reopen();
  for (const PlanRecord& plan : {mine, theirs, nobodys}) {
    EXPECT_THAT(store().FindPlanByRequestId("c", plan.owner, mine.request_id),
                IsOkAndHolds(testing::Optional(plan)));
  }
  EXPECT_THAT(store().FindPlanByRequestId("c", "cn:else", mine.request_id),
              IsOkAndHolds(std::nullopt));
}

TEST_P(StoreConformance, TheNewestPlanOfAJobIsFound) {
  PlanRecord older = SamplePlan("c", "older");
  PlanRecord newer = SamplePlan("c", "newer");
  PlanRecord no_job = SamplePlan("c", "no job");
  no_job.job_id.clear();
  older.expire_time = newer.expire_time + absl::Hours(1);
  for (const PlanRecord& plan : {older, newer, no_job, SamplePlan("other", "p")}) {
    ASSERT_OK(store().PutPlan(plan));
  }
  EXPECT_THAT(store().FindPlanOfJob("c", "job"), IsOkAndHolds(testing::Optional(newer)));
  EXPECT_THAT(store().FindPlanOfJob("c", "another"), IsOkAndHolds(std::nullopt));
  EXPECT_THAT(store().FindPlanOfJob("c", ""), IsOkAndHolds(std::nullopt));
}

TEST_P(StoreConformance, OwnPlansAreThoseOfTheOwnerAndOfTheJobs) {
  const auto put = [this](const std::string& id, const std::string& owner, const std::string& job) {
    PlanRecord plan = SamplePlan("c", id);
    plan.owner = owner;
    plan.job_id = job;
    EXPECT_OK(store().PutPlan(plan).status());
    return plan;
  };
  const PlanRecord mine = put("mine", "cn:me", "a");
  const PlanRecord both = put("both", "cn:me", "b \"'%_");
  const PlanRecord theirs = put("theirs", "cn:you", "b \"'%_");
  const PlanRecord nobodys = put("nobodys", "", "");
  PlanRecord elsewhere = SamplePlan("other", "p");
  elsewhere.owner = "cn:me";
  ASSERT_OK(store().PutPlan(elsewhere));
  const auto listed = [this](const PlanScope& scope) {
    const auto page = store().ListOwnPlans("c", scope, {});
    EXPECT_OK(page.status());
    return page.ok() ? page->records : std::vector<PlanRecord>();
  };
  EXPECT_THAT(listed({.owner = "cn:me"}), testing::ElementsAre(both, mine));
  EXPECT_THAT(listed({.job_ids = {"x", "b \"'%_"}}), testing::ElementsAre(theirs, both));
  EXPECT_THAT(listed({.owner = "cn:me", .job_ids = {"b \"'%_"}}),
              testing::ElementsAre(theirs, both, mine));
  EXPECT_THAT(listed({.owner = "cn:ME"}), testing::IsEmpty());
  // An empty owner is nobody: the plans of a server that restricts nobody are no one's own.
  EXPECT_THAT(listed({}), testing::IsEmpty());
}

TEST_P(StoreConformance, PagesOfOwnPlansGoOnWhereTheyEndedAndAreNoOneElses) {
  for (int i = 0; i < 6; ++i) {
    PlanRecord plan = SamplePlan("c", absl::StrCat(i));
    plan.owner = i % 2 == 0 ? "cn:me" : "cn:you";
    ASSERT_OK(store().PutPlan(plan));
  }
  const PlanScope mine = {.owner = "cn:me"};
  PageRequest request = {.page_size = 2};
  ASSERT_OK_AND_ASSIGN(const auto first, store().ListOwnPlans("c", mine, request));
  ASSERT_EQ(first.records.size(), 2u);
  EXPECT_EQ(first.records[0].plan_id, "4");
  EXPECT_EQ(first.records[1].plan_id, "2");
  request.page_token = first.next_page_token;
  ASSERT_OK_AND_ASSIGN(const auto second, store().ListOwnPlans("c", mine, request));
  ASSERT_EQ(second.records.size(), 1u);
  EXPECT_EQ(second.records[0].plan_id, "0");
  EXPECT_EQ(second.next_page_token, "");
  EXPECT_THAT(store().ListOwnPlans("c", {.owner = "cn:you"}, request),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(store().ListPlans("c", request), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_P(StoreConformance, AJobHasTheOwnerAndTheHighestNumberThatWereClaimed) {
  EXPECT_THAT(store().FindJob("c", "job", SampleTime(0)), IsOkAndHolds(std::nullopt));
  ASSERT_OK(store().PutPlan(SamplePlan("c", "1"), JobClaim{"cn:me", 1}));
  Reopen();
  EXPECT_THAT(store().FindJob("c", "job", SampleTime(0)),
              IsOkAndHolds(testing::Optional(JobRecord{"cn:me", 1, true})));
  EXPECT_THAT(store().FindJob("c", "another", SampleTime(0)), IsOkAndHolds(std::nullopt));
  EXPECT_THAT(store().FindJob("other", "job", SampleTime(0)), IsOkAndHolds(std::nullopt));
  ASSERT_OK(store().PutPlan(SamplePlan("c", "7"), JobClaim{"cn:you", 7}));
  EXPECT_THAT(store().FindJob("c", "job", SampleTime(0)),
              IsOkAndHolds(testing::Optional(JobRecord{"cn:you", 7, true})));
  // A plan that claims nothing changes nothing.
  ASSERT_OK(store().PutPlan(SamplePlan("c", "x")));
  EXPECT_EQ((*store().FindJob("c", "job", SampleTime(0)))->generation, 7);
}

TEST_P(StoreConformance, ANumberOfAJobIsGivenOnce) {
  ASSERT_OK(store().PutPlan(SamplePlan("c", "first"), JobClaim{"cn:me", 2}));
  for (const int64_t taken : {1, 2}) {
    const auto refused = store().PutPlan(SamplePlan("c", "late"), JobClaim{"cn:you", taken});
    EXPECT_THAT(refused, StatusIs(absl::StatusCode::kAborted));
    EXPECT_EQ(ReasonOf(refused), Reason::kStoreUnavailable);
  }
  EXPECT_THAT(store().CountPlans("c"), IsOkAndHolds(1));
  EXPECT_EQ((*store().FindJob("c", "job", SampleTime(0)))->owner, "cn:me");
  // A repeated request is answered by its plan, whatever the retry claims.
  PlanRecord again = SamplePlan("c", "again");
  again.request_id = "request-first";
  again.plan_key = "key-first";
  EXPECT_THAT(store().PutPlan(again, JobClaim{"cn:me", 2}), IsOkAndHolds(SamplePlan("c", "first")));
  EXPECT_THAT(store().PutPlan(again, JobClaim{"cn:me", 3}), IsOkAndHolds(SamplePlan("c", "first")));
  EXPECT_EQ((*store().FindJob("c", "job", SampleTime(0)))->generation, 2);
  // As are names; numbers of other jobs are their own.
  EXPECT_THAT(store().PutPlan(SamplePlan("d", "p"), JobClaim{"cn:me", 1}),
              IsOkAndHolds(SamplePlan("d", "p")));
}

TEST_P(StoreConformance, AJobIsHeldByValidPlansAndRunningExecutions) {
  const auto is_held = [this](int64_t seconds) {
    const auto job = store().FindJob("c", "job", SampleTime(seconds));
    EXPECT_OK(job.status());
    return job.ok() && job->has_value() && (*job)->is_held;
  };
  const PlanRecord plan = SamplePlan("c", "p");
  ASSERT_OK(store().PutPlan(plan, JobClaim{"cn:me", 1}));
  EXPECT_TRUE(is_held(3599));
  EXPECT_FALSE(is_held(3600));
  const ExecutionRecord execution = SampleExecution(plan.name, "e");
  ASSERT_OK(store().CreateExecution(execution));
  EXPECT_TRUE(is_held(3600));
  // Of another job.
  PlanRecord other = SamplePlan("c", "other");
  other.job_id = "other";
  other.expire_time = SampleTime(9000);
  ASSERT_OK(store().PutPlan(other, JobClaim{"cn:you", 1}));
  ASSERT_OK(store().CreateExecution(SampleExecution(other.name, "e")));
  ASSERT_OK(store().SetExecutionState(execution.name, ExecutionState::kRunning,
                                      ExecutionState::kSucceeded, SampleTime(20), ""));
  EXPECT_FALSE(is_held(3600));
}

TEST_P(StoreConformance, AJobOutlivesItsPlans) {
  ASSERT_OK(store().PutPlan(SamplePlan("c", "p"), JobClaim{"cn:me", 3}));
  ASSERT_THAT(store().DeleteExpiredPlans(SampleTime(9999), 10), IsOkAndHolds(1));
  Reopen();
  EXPECT_THAT(store().FindJob("c", "job", SampleTime(0)),
              IsOkAndHolds(testing::Optional(JobRecord{"cn:me", 3, false})));
}

// Both lists at once, with pages that end in the middle of either.
TEST_P(StoreConformance, PagesOfOwnPlansMeetEachPlanOnce) {
  std::vector<std::string> expected;
  for (int i = 0; i < 40; ++i) {
    PlanRecord plan = SamplePlan("c", absl::StrCat(i));
    plan.owner = i % 3 == 0 ? "cn:me" : "cn:you";
    plan.job_id = absl::StrCat("job-", i % 5);
    ASSERT_OK(store().PutPlan(plan));
    if (i % 3 == 0 || i % 5 < 2) expected.insert(expected.begin(), plan.plan_id);
  }
  for (const int page_size : {1, 3, 7, 100}) {
    PageRequest request = {.page_size = page_size};
    std::vector<std::string> met;
    do {
      ASSERT_OK_AND_ASSIGN(
          const auto page,
          store().ListOwnPlans("c", {.owner = "cn:me", .job_ids = {"job-0", "job-1"}}, request));
      for (const PlanRecord& plan : page.records) met.push_back(plan.plan_id);
      request.page_token = page.next_page_token;
    } while (!request.page_token.empty());
    EXPECT_EQ(met, expected) << page_size;
  }
}

}  // namespace
}  // namespace parplan
