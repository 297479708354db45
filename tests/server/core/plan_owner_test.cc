// Whose plans are whose: request ids, the cache, and the plans that follow each other in one job.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "parplan/v1/execution_service.pb.h"
#include "server/core/plan_core.h"
#include "tests/server/core/core_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::SizeIs;

HeldRole Everywhere(Role role) {
  HeldRole held;
  held.role = role;
  held.clusters.has_all = true;
  if (role == Role::kExecutor) held.jobs.ids = {"j"};
  return held;
}

class PlanOwnerTest : public CoreTest {
 protected:
  PlanOwnerTest() { StartMeasured(); }

  absl::StatusOr<SharedPlan> AskAs(const std::string& name, const v1::CreatePlanRequest& request,
                                   Role role = Role::kPlanner) {
    const Identity identity =
        Identity::OfCertificate({.common_names = {name}}, {NameSource::kCommonName});
    auto caller = std::make_shared<const Caller>(identity, std::vector<HeldRole>{Everywhere(role)});
    return AskLater(request,
                    CallContext::Create("call", absl::InfiniteDuration(), clock, std::move(caller)))
        .get();
  }

  // A question of job `j`; another batch is another question.
  v1::CreatePlanRequest QuestionOfJob(int64_t batch = 0) const {
    v1::CreatePlanRequest request = Question();
    request.set_job_id("j");
    if (batch != 0) request.mutable_spec()->set_global_batch_size(batch);
    return request;
  }
};

TEST_F(PlanOwnerTest, EqualQuestionsOfTwoOwnersGetAPlanEachAfterOneSearch) {
  ASSERT_OK_AND_ASSIGN(const SharedPlan mine, AskAs("me", Question()));
  ASSERT_OK_AND_ASSIGN(const SharedPlan theirs, AskAs("you", Question()));
  EXPECT_NE(mine->name(), theirs->name());
  EXPECT_FALSE(theirs->from_cache());
  EXPECT_EQ(planner.search_count, 1);
  ASSERT_OK_AND_ASSIGN(const SharedPlan again, AskAs("me", Question()));
  EXPECT_EQ(again->name(), mine->name());
  EXPECT_TRUE(again->from_cache());
  Start(store().OpenAgain());
  ASSERT_OK_AND_ASSIGN(const SharedPlan stored, AskAs("you", Question()));
  EXPECT_EQ(stored->name(), theirs->name());
}

TEST_F(PlanOwnerTest, RequestIdsBelongToTheirOwners) {
  v1::CreatePlanRequest mine = Question();
  mine.set_request_id("guessed");
  ASSERT_OK(AskAs("me", mine).status());
  v1::CreatePlanRequest theirs = QuestionOfJob();
  theirs.set_request_id("guessed");
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, AskAs("you", theirs));
  ASSERT_OK_AND_ASSIGN(const SharedPlan again, AskAs("you", theirs));
  EXPECT_EQ(again->name(), plan->name());
  EXPECT_EQ(ReasonOf(AskAs("me", theirs).status()), Reason::kRequestIdReused);
}

TEST_F(PlanOwnerTest, AJobWithAPlanIsNotPlannedByOthers) {
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, AskAs("me", QuestionOfJob()));
  for (const v1::CreatePlanRequest& request : {QuestionOfJob(), QuestionOfJob(8)}) {
    const absl::Status refused = AskAs("you", request).status();
    EXPECT_THAT(refused, StatusIs(absl::StatusCode::kPermissionDenied));
    EXPECT_EQ(ReasonOf(refused), Reason::kRoleRequired);
    EXPECT_EQ(std::string(refused.message()).find("cn:me"), std::string::npos);
  }
  EXPECT_OK(AskAs("me", QuestionOfJob(8)).status());
  EXPECT_OK(AskAs("the job", QuestionOfJob(8), Role::kExecutor).status());
  EXPECT_OK(AskAs("boss", QuestionOfJob(8), Role::kOperator).status());
}

TEST_F(PlanOwnerTest, TheFirstOwnerKeepsAJobForWhichOthersPlan) {
  ASSERT_OK(AskAs("me", QuestionOfJob()).status());
  ASSERT_OK(AskAs("boss", QuestionOfJob(8), Role::kOperator).status());
  EXPECT_OK(AskAs("me", QuestionOfJob(32)).status());
  ASSERT_OK(AskAs("the job", QuestionOfJob(64), Role::kExecutor).status());
  EXPECT_OK(AskAs("me", QuestionOfJob(128)).status());
  EXPECT_THAT(AskAs("you", QuestionOfJob(24)), StatusIs(absl::StatusCode::kPermissionDenied));
  // Nor does it lose the job to a server that restricts nobody for a while.
  ASSERT_OK(Ask(QuestionOfJob(256)).status());
  EXPECT_OK(AskAs("me", QuestionOfJob(512)).status());
  EXPECT_THAT(AskAs("you", QuestionOfJob(24)), StatusIs(absl::StatusCode::kPermissionDenied));
}

// Gives a record and the plan in it this name.
void SetName(PlanRecord& record, const std::string& name) {
  v1::Plan plan;
  ASSERT_TRUE(plan.ParseFromString(record.bytes));
  plan.set_name(name);
  record.name = name;
  record.bytes = plan.SerializeAsString();
}

// Another server stores its plan between this one's look at the job and its own plan.
TEST_F(PlanOwnerTest, AJobThatAnotherServerPlansForMeanwhileIsNumberedAnew) {
  const auto other = store().OpenAgain();
  for (const std::string owner : {"cn:me", "cn:you"}) {
    v1::CreatePlanRequest request = QuestionOfJob();
    request.set_job_id(owner);
    PlanRecord theirs;
    SetName(theirs, absl::StrCat("clusters/synthetic/plans/", owner));
    theirs.cluster = "synthetic";
    theirs.owner = owner;
    theirs.job_id = request.job_id();
    theirs.expire_time = clock.Now() + absl::Hours(1);
    bool is_stored = false;
    store().BeforePutPlan([&] {
      if (std::exchange(is_stored, true)) return;
      ASSERT_OK(other->PutPlan(theirs, JobClaim{owner, 1}).status());
    });
    const absl::StatusOr<SharedPlan> plan = AskAs("me", request);
    if (owner == "cn:me") {
      ASSERT_OK(plan.status());
      EXPECT_EQ(PayloadOf(**plan).generation(), 2);
    } else {
      EXPECT_THAT(plan, StatusIs(absl::StatusCode::kPermissionDenied)) << "the job is theirs now";
    }
  }
}

// Again and again.
TEST_F(PlanOwnerTest, AServerThatIsAlwaysTooLateGivesUp) {
  const auto other = store().OpenAgain();
  PlanRecord theirs;
  theirs.cluster = "synthetic";
  theirs.job_id = "j";
  theirs.expire_time = clock.Now() + absl::Hours(1);
  int64_t number = 0;
  store().BeforePutPlan([&] {
    SetName(theirs, absl::StrCat("clusters/synthetic/plans/", ++number));
    ASSERT_OK(other->PutPlan(theirs, JobClaim{"cn:me", number}).status());
  });
  EXPECT_THAT(AskAs("me", QuestionOfJob()), StatusIs(absl::StatusCode::kUnavailable));
  store().BeforePutPlan(nullptr);
  EXPECT_OK(AskAs("me", QuestionOfJob()).status());
}

TEST_F(PlanOwnerTest, NumbersOfAJobGoOnAfterItsPlansWereDeleted) {
  ASSERT_OK(AskAs("me", QuestionOfJob()).status());
  ASSERT_OK(AskAs("me", QuestionOfJob(8)).status());
  EXPECT_THAT(store().DeleteExpiredPlans(absl::InfiniteFuture(), 10), IsOkAndHolds(2));
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, AskAs("me", QuestionOfJob(32)));
  EXPECT_EQ(PayloadOf(*plan).generation(), 3);
  EXPECT_EQ(PayloadOf(*plan).supersedes(), "");
}

// A server of an older release on the same store numbers plans without telling it.
TEST_F(PlanOwnerTest, PlansThatClaimedNothingCountToo) {
  ASSERT_OK_AND_ASSIGN(const SharedPlan first, AskAs("me", QuestionOfJob()));
  v1::PlanPayload payload = PayloadOf(*first);
  payload.set_generation(5);
  v1::Plan newer = *first;
  newer.mutable_signed_plan()->set_payload(payload.SerializeAsString());
  ASSERT_OK_AND_ASSIGN(PlanRecord record, store().GetPlan(first->name()));
  record.request_id.clear();
  record.bytes = newer.SerializeAsString();
  SetName(record, record.name + "5");
  ASSERT_OK(store().PutPlan(record).status());
  ASSERT_OK_AND_ASSIGN(const SharedPlan next, AskAs("me", QuestionOfJob(8)));
  EXPECT_EQ(PayloadOf(*next).generation(), 6);
  // Also for a job that the store does not know otherwise.
  SetName(record, record.name + "k");
  record.job_id = "k";
  ASSERT_OK(store().PutPlan(record).status());
  v1::CreatePlanRequest of_k = QuestionOfJob(8);
  of_k.set_job_id("k");
  EXPECT_THAT(AskAs("you", of_k), StatusIs(absl::StatusCode::kPermissionDenied));
  ASSERT_OK_AND_ASSIGN(const SharedPlan of_job_k, AskAs("me", of_k));
  EXPECT_EQ(PayloadOf(*of_job_k).generation(), 6);
}

TEST_F(PlanOwnerTest, AnIdOfAJobIsFreeOnceItsPlanExpiredAndNothingRunsByIt) {
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, AskAs("me", QuestionOfJob()));
  v1::CreateExecutionRequest request;
  request.set_parent(plan->name());
  request.set_request_id("run");
  ASSERT_OK_AND_ASSIGN(const v1::Execution execution, core().executions().Create(request));
  clock.Advance(absl::Hours(25));
  EXPECT_THAT(AskAs("you", QuestionOfJob()), StatusIs(absl::StatusCode::kPermissionDenied));
  v1::CompleteExecutionRequest completion;
  completion.set_name(execution.name());
  ASSERT_OK(core().executions().Complete(completion).status());
  EXPECT_OK(AskAs("you", QuestionOfJob()).status());
  EXPECT_THAT(AskAs("me", QuestionOfJob(8)), StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST_F(PlanOwnerTest, PlansOfBeforeTheRolesAreGoneOnWith) {
  ASSERT_OK(Ask(QuestionOfJob()).status());
  EXPECT_OK(AskAs("me", QuestionOfJob(8)).status());
  // And a server that restricts nobody again asks for no owner.
  EXPECT_OK(Ask(QuestionOfJob(16)).status());
}

TEST_F(PlanOwnerTest, PlansOfAJobAreNumberedAndNameWhatTheySupersede) {
  ASSERT_OK_AND_ASSIGN(const SharedPlan first, AskAs("me", QuestionOfJob()));
  EXPECT_EQ(PayloadOf(*first).generation(), 1);
  EXPECT_EQ(PayloadOf(*first).supersedes(), "");
  v1::CreatePlanRequest other_life = QuestionOfJob();
  other_life.mutable_time_to_live()->set_seconds(3600);
  ASSERT_OK_AND_ASSIGN(const SharedPlan second, AskAs("me", other_life));
  EXPECT_EQ(PayloadOf(*second).generation(), 2);
  EXPECT_EQ(PayloadOf(*second).supersedes(), first->name());
  ASSERT_OK_AND_ASSIGN(const SharedPlan third, AskAs("me", QuestionOfJob(8)));
  EXPECT_EQ(PayloadOf(*third).generation(), 3);
  EXPECT_EQ(PayloadOf(*third).supersedes(), "") << "another batch";
  ASSERT_OK_AND_ASSIGN(const SharedPlan alone, AskAs("me", Question()));
  EXPECT_EQ(PayloadOf(*alone).generation(), 0) << "no job";
  // Another job begins at 1, also where the answer is that of a plan of this one.
  v1::CreatePlanRequest other_job = QuestionOfJob(8);
  other_job.set_job_id("k");
  ASSERT_OK_AND_ASSIGN(const SharedPlan of_other, AskAs("me", other_job));
  EXPECT_EQ(PayloadOf(*of_other).generation(), 1);
}

}  // namespace
}  // namespace parplan
