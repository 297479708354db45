// Quotas of identities and clusters.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/core/quota_keeper.h"
#include "tests/server/core/quota_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

TEST_F(QuotaTest, PlansOfAnIdentityEndAtItsQuotaAndOthersGoOn) {
  limits.identity_quota.plan_count = 2;
  StartMeasured();
  ASSERT_OK(AskAs("me", Numbered(1)));
  ASSERT_OK(AskAs("me", Numbered(2)));
  const int search_count = planner.search_count;
  ExpectExceeded(AskAs("me", Numbered(3)).status(), "identity.plans", "cn:me", "2");
  EXPECT_EQ(planner.search_count, search_count) << "a search in vain";
  // What it has is answered.
  EXPECT_OK(AskAs("me", Numbered(2)));
  EXPECT_OK(AskAs("you", Numbered(3)));
  // A server that restricts nobody knows no identities.
  for (int i = 1; i <= 4; ++i) EXPECT_OK(Ask(Numbered(i)));
}

TEST_F(QuotaTest, PlansThatHaveExpiredMakeRoom) {
  limits.identity_quota.plan_count = 2;
  StartMeasured();
  ASSERT_OK_AND_ASSIGN(const SharedPlan first, AskAs("me", Numbered(1)));
  ASSERT_OK(AskAs("me", Numbered(2)));
  ASSERT_OK_AND_ASSIGN(const SharedPlan theirs, AskAs("you", Numbered(1)));
  // Nothing has expired, and nobody looks again for a while.
  clock.Advance(ClockCheck::kMinConfirmation);
  ASSERT_FALSE(AskAs("me", Numbered(3)).ok());
  ASSERT_FALSE(AskAs("me", Numbered(3)).ok());
  EXPECT_EQ(observer.store_calls("delete_expired_plans"), 1);
  // A sidecar that cannot reach the server may still have measurements of its job.
  clock.Advance(limits.default_time_to_live + QuotaKeeper::kPurgePause);
  EXPECT_FALSE(AskAs("me", Numbered(3)).ok());
  v1::GetPlanRequest get;
  get.set_name(first->name());
  EXPECT_OK(core().plans().GetPlan(get));
  clock.Advance(QuotaKeeper::kPurgeMargin);
  EXPECT_OK(AskAs("me", Numbered(3)));
  EXPECT_THAT(core().plans().GetPlan(get), StatusIs(absl::StatusCode::kNotFound));
  // Others' expired plans stay as long as ever.
  get.set_name(theirs->name());
  EXPECT_OK(core().plans().GetPlan(get));
}

TEST_F(QuotaTest, BytesOfAnIdentityAreThoseOfItsProfilesAndPlans) {
  StartMeasured();
  ASSERT_OK(UploadAs("node-1", "r1"));
  ASSERT_OK_AND_ASSIGN(const StoredUsage profile, store().Usage({.owner = "cn:node-1"}));
  EXPECT_EQ(profile.plan_count, 0);
  EXPECT_GT(profile.byte_count, 0);
  limits.identity_quota.stored_bytes = profile.byte_count + 10;
  Start(store().OpenAgain());
  ExpectExceeded(UploadAs("node-1", "r2"), "identity.stored_bytes", "cn:node-1",
                 absl::StrCat(profile.byte_count + 10));
  // A retry of what is stored would be one more if it were new.
  EXPECT_OK(UploadAs("node-1", "r1"));
  EXPECT_EQ(ReasonOf(UploadAs("node-1", "r2")), Reason::kQuotaExceeded);
}

TEST_F(QuotaTest, ExecutionsAndWindowsCountForWhoeverOpenedTheExecution) {
  StartMeasured();
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, AskAs("me", Numbered(1)));
  v1::CreateExecutionRequest open;
  open.set_parent(plan->name());
  open.set_request_id("one");
  ASSERT_OK_AND_ASSIGN(const v1::Execution execution, core().executions().Create(open, "cn:job"));
  ASSERT_OK_AND_ASSIGN(const StoredUsage opened, store().Usage({.owner = "cn:job"}));
  EXPECT_GT(opened.execution_byte_count, kExecutionRowBytes);
  v1::ReportMetricsRequest report;
  report.set_execution(execution.name());
  v1::MeasuredWindow& window = *report.mutable_window();
  window.set_step_count(10);
  window.mutable_median_step_duration()->set_seconds(1);
  ASSERT_OK(core().executions().StartReport()->Add(report));
  ASSERT_OK_AND_ASSIGN(const StoredUsage used, store().Usage({.owner = "cn:job"}));
  EXPECT_GT(used.execution_byte_count, opened.execution_byte_count);
  limits.identity_quota.execution_bytes = used.execution_byte_count + 1;
  Start(store().OpenAgain());
  // What is stored already needs no room.
  EXPECT_OK(core().executions().StartReport()->Add(report));
  EXPECT_OK(core().executions().Create(open, "cn:job"));
  const std::string limit = absl::StrCat(used.execution_byte_count + 1);
  window.set_first_step(10);
  ExpectExceeded(core().executions().StartReport()->Add(report), "identity.execution_bytes",
                 "cn:job", limit);
  open.set_request_id("two");
  const absl::Status refused = core().executions().Create(open, "cn:job").status();
  ExpectExceeded(refused, "identity.execution_bytes", "cn:job", limit);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted,
                                testing::HasSubstr("execution_retention")));
  // Neither was stored, and others have their own.
  EXPECT_THAT(store().Usage({.owner = "cn:job"}), IsOkAndHolds(used));
  EXPECT_OK(core().executions().Create(open, "cn:other"));
}

// Executions stay for long: they may stop no plan.
TEST_F(QuotaTest, ExecutionsTakeNoRoomOfPlansAndProfilesNorThoseOfExecutions) {
  StartMeasured();
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, AskAs("me", Numbered(1)));
  v1::CreateExecutionRequest open;
  open.set_parent(plan->name());
  const auto open_another = [&](const std::string& id) {
    open.set_request_id(id);
    return core().executions().Create(open, "cn:me").status();
  };
  for (int i = 0; i < 20; ++i) ASSERT_OK(open_another(absl::StrCat(i)));
  ASSERT_OK_AND_ASSIGN(const StoredUsage used, store().Usage({.cluster = "synthetic"}));
  limits.cluster_quota.execution_bytes = used.execution_byte_count;
  limits.identity_quota.execution_bytes = used.execution_byte_count;
  // Room for another plan, and less than what the executions take up.
  const int64_t room = int64_t{64} << 10;
  ASSERT_GT(used.execution_byte_count, room);
  limits.cluster_quota.stored_bytes = used.byte_count + room;
  limits.identity_quota.stored_bytes = used.byte_count + room;
  Start(store().OpenAgain());
  EXPECT_EQ(FactOf(open_another("one more"), "quota"), "identity.execution_bytes");
  EXPECT_OK(AskAs("me", Numbered(2)));
  EXPECT_OK(UploadAs("node-1", "r1"));
  // The other way round.
  limits.cluster_quota = {.stored_bytes = 1, .execution_bytes = 2 * used.execution_byte_count};
  limits.identity_quota = {.stored_bytes = 1};
  Start(store().OpenAgain());
  EXPECT_EQ(FactOf(AskAs("me", Numbered(3)).status(), "quota"), "identity.stored_bytes");
  EXPECT_OK(open_another("one more"));
}

TEST_F(QuotaTest, AClosedExecutionSaysSoAlsoWhereAQuotaIsUsedUp) {
  StartMeasured();
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, AskAs("me", Numbered(1)));
  v1::CreateExecutionRequest open;
  open.set_parent(plan->name());
  open.set_request_id("one");
  ASSERT_OK_AND_ASSIGN(const v1::Execution execution, core().executions().Create(open, "cn:job"));
  v1::ReportMetricsRequest report;
  report.set_execution(execution.name());
  report.mutable_window()->set_step_count(10);
  report.mutable_window()->mutable_median_step_duration()->set_seconds(1);
  limits.identity_quota.execution_bytes = 1;
  Start(store().OpenAgain());
  ExpectExceeded(core().executions().StartReport()->Add(report), "identity.execution_bytes",
                 "cn:job", "1");
  v1::CompleteExecutionRequest complete;
  complete.set_name(execution.name());
  ASSERT_OK(core().executions().Complete(complete));
  const absl::Status closed = core().executions().StartReport()->Add(report);
  EXPECT_EQ(ReasonOf(closed), Reason::kExecutionState) << closed;
  EXPECT_THAT(closed, StatusIs(absl::StatusCode::kFailedPrecondition));
}

// A stream asks once for many windows, and no later than after a megabyte.
TEST_F(QuotaTest, AStreamOfWindowsExceedsAQuotaByAMegabyteAtMost) {
  StartMeasured();
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, AskAs("me", Numbered(1)));
  v1::CreateExecutionRequest open;
  open.set_parent(plan->name());
  open.set_request_id("one");
  ASSERT_OK_AND_ASSIGN(const v1::Execution execution, core().executions().Create(open, "cn:job"));
  limits.identity_quota.execution_bytes = 100000;
  Start(store().OpenAgain());
  v1::ReportMetricsRequest report;
  report.set_execution(execution.name());
  v1::MeasuredWindow& window = *report.mutable_window();
  window.set_step_count(1);
  window.mutable_median_step_duration()->set_seconds(1);
  v1::CollectiveTiming timing;
  timing.set_collective(v1::COLLECTIVE_ALL_REDUCE);
  timing.set_participant_count(2);
  timing.set_rank_stride(1);
  timing.set_message_size_bytes(1);
  timing.mutable_median_duration()->set_nanos(1);
  for (int i = 0; i < 1024; ++i) *window.add_collective_timings() = timing;
  const auto stream = core().executions().StartReport();
  absl::Status full;
  int count = 0;
  while (full.ok() && ++count < 1000) {
    window.set_first_step(count);
    full = stream->Add(report);
  }
  ExpectExceeded(full, "identity.execution_bytes", "cn:job", "100000");
  EXPECT_GT(count, 2);
  EXPECT_LT(store().Usage({.owner = "cn:job"})->execution_byte_count, 100000 + (1 << 20));
}

TEST_F(QuotaTest, AProfileNeedsNoMoreRoomThanThoseThatItReplaces) {
  limits.profiles_per_node = 1;
  StartMeasured();
  ASSERT_OK(UploadAs("node-1", "r1"));
  ASSERT_OK_AND_ASSIGN(const StoredUsage mine, store().Usage({.owner = "cn:node-1"}));
  ASSERT_OK_AND_ASSIGN(const StoredUsage all, store().Usage({.cluster = "synthetic"}));
  // Both may even have been lowered since.
  limits.identity_quota.stored_bytes = mine.byte_count / 2;
  limits.cluster_quota.stored_bytes = all.byte_count / 2;
  Start(store().OpenAgain());
  EXPECT_OK(UploadAs("node-1", "r2"));
  EXPECT_THAT(store().Usage({.owner = "cn:node-1"}), IsOkAndHolds(mine));
  // This one replaces a profile of another owner, and the room of that owner is not its own.
  ExpectExceeded(UploadAs("node-2", "r3"), "identity.stored_bytes", "cn:node-2",
                 absl::StrCat(mine.byte_count / 2));
}

// A clock that is a year ahead lets every plan be old.
TEST_F(QuotaTest, NoPlanGoesOnOneReadingOfAClock) {
  limits.identity_quota.plan_count = 1;
  StartMeasured();
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, AskAs("me", Numbered(1)));
  const absl::Duration year = absl::Hours(24 * 365);
  for (const absl::Duration passed : {absl::ZeroDuration(), 2 * ClockCheck::kMinConfirmation}) {
    clock.Advance(passed);
    clock.Jump(year);
    EXPECT_EQ(ReasonOf(AskAs("me", Numbered(2)).status()), Reason::kQuotaExceeded);
    clock.Advance(QuotaKeeper::kPurgePause);
    EXPECT_EQ(ReasonOf(AskAs("me", Numbered(2)).status()), Reason::kQuotaExceeded);
    clock.Jump(-year);
    EXPECT_EQ(ReasonOf(AskAs("me", Numbered(2)).status()), Reason::kQuotaExceeded);
    v1::GetPlanRequest get;
    get.set_name(plan->name());
    EXPECT_OK(core().plans().GetPlan(get));
  }
}

// The cluster is full of others' plans, which are theirs to give away.
TEST_F(QuotaTest, OnlyOwnPlansMakeRoomInACluster) {
  limits.cluster_quota.plan_count = 2;
  StartMeasured();
  ASSERT_OK(AskAs("me", Numbered(1)));
  ASSERT_OK_AND_ASSIGN(const SharedPlan theirs, AskAs("you", Numbered(2)));
  clock.Advance(limits.default_time_to_live + QuotaKeeper::kPurgeMargin);
  ExpectExceeded(AskAs("other", Numbered(3)).status(), "cluster.plans", "synthetic", "2");
  EXPECT_OK(AskAs("me", Numbered(3)));
  v1::GetPlanRequest get;
  get.set_name(theirs->name());
  EXPECT_OK(core().plans().GetPlan(get));
}

TEST_F(QuotaTest, BytesOfAClusterAreThoseOfEverybody) {
  StartMeasured();
  ASSERT_OK(AskAs("me", Numbered(1)));
  ASSERT_OK_AND_ASSIGN(const StoredUsage usage, store().Usage({.cluster = "synthetic"}));
  EXPECT_EQ(usage.plan_count, 1);
  limits.cluster_quota.stored_bytes = usage.byte_count;
  Start(store().OpenAgain());
  for (const absl::Status& refused :
       {AskAs("you", Numbered(2)).status(), Ask(Numbered(2)).status(), UploadAs("node-1", "r1"),
        Upload(SyntheticProfile({}), "another").status()}) {
    ExpectExceeded(refused, "cluster.stored_bytes", "synthetic", absl::StrCat(usage.byte_count));
  }
  EXPECT_OK(AskAs("me", Numbered(1)));
}

TEST_F(QuotaTest, WithoutQuotasTheStoreIsNotAsked) {
  StartMeasured();
  ASSERT_OK(AskAs("me", Numbered(1)));
  EXPECT_EQ(observer.store_calls("usage"), 0);
}

// Refused before only if its own bytes exceed the quota.
TEST_F(QuotaTest, APlanNeedsNoRoomForASpecThatIsStored) {
  StartMeasured();
  ASSERT_OK(AskAs("me", Numbered(1)));
  ASSERT_OK_AND_ASSIGN(const StoredUsage before, store().Usage({.cluster = "synthetic"}));
  v1::CreatePlanRequest again = Numbered(1);
  again.set_job_id("another");
  ASSERT_OK(AskAs("me", again));
  ASSERT_OK_AND_ASSIGN(const StoredUsage after, store().Usage({.cluster = "synthetic"}));
  const int64_t plan_bytes = after.byte_count - before.byte_count;
  const auto spec_bytes = static_cast<int64_t>(again.spec().ByteSizeLong());
  again.set_job_id("a third");
  // Room for the plan alone, and for less.
  for (const int64_t room : {plan_bytes + spec_bytes / 2, plan_bytes / 2}) {
    limits.cluster_quota.stored_bytes = store().Usage({.cluster = "synthetic"})->byte_count + room;
    Start(store().OpenAgain());
    const absl::Status asked = AskAs("me", again).status();
    EXPECT_EQ(asked.ok(), room > plan_bytes) << asked;
    again.set_job_id("a fourth");
  }
}

// The plan would not fit, however small it is.
TEST_F(QuotaTest, AFullQuotaRefusesAStoredSpecBeforeTheSearch) {
  StartMeasured();
  ASSERT_OK(AskAs("me", Numbered(1)));
  // Other measurements, so the question is to be searched again.
  v1::Profile newer = SyntheticProfile({});
  newer.set_overlap_slowdown(1.5);
  ASSERT_OK(Upload(newer, "another"));
  for (const int64_t room : {int64_t{100}, int64_t{1} << 20}) {
    limits.cluster_quota.stored_bytes = store().Usage({.cluster = "synthetic"})->byte_count + room;
    Start(store().OpenAgain());
    const int search_count = planner.search_count;
    const absl::StatusOr<SharedPlan> asked = AskAs("me", Numbered(1));
    if (room == 100) {
      EXPECT_EQ(FactOf(asked.status(), "quota"), "cluster.stored_bytes");
      EXPECT_EQ(planner.search_count, search_count) << "a search in vain";
    } else {
      ASSERT_OK(asked);
      EXPECT_EQ(planner.search_count, search_count + 1);
      // The smallest plan has more than what is asked for before a search.
      EXPECT_GE(store().GetPlan((*asked)->name())->bytes.size(), 1024u);
    }
  }
}

// The spec is most of what a plan with a large model takes up.
TEST_F(QuotaTest, PlansForOneQuestionShareItsSpecInTheStore) {
  StartMeasured();
  v1::CreatePlanRequest request = Question();
  const auto spec_bytes = static_cast<int64_t>(request.spec().ByteSizeLong());
  ASSERT_OK_AND_ASSIGN(const StoredUsage before, store().Usage({}));
  std::vector<std::string> names;
  for (int i = 0; i < 5; ++i) {
    request.set_job_id(absl::StrCat("job-", i));
    ASSERT_OK_AND_ASSIGN(const SharedPlan plan, Ask(request));
    names.push_back(plan->name());
  }
  Start(store().OpenAgain());
  int64_t bytes_apart = 0;
  for (const std::string& name : names) {
    ASSERT_OK_AND_ASSIGN(const PlanRecord record, store().GetPlan(name));
    EXPECT_EQ(static_cast<int64_t>(record.spec.size()), spec_bytes);
    bytes_apart += static_cast<int64_t>(record.bytes.size());
    v1::GetPlanRequest get;
    get.set_name(name);
    ASSERT_OK_AND_ASSIGN(const v1::Plan plan, core().plans().GetPlan(get));
    EXPECT_EQ(plan.spec().SerializeAsString(), request.spec().SerializeAsString());
  }
  ASSERT_OK_AND_ASSIGN(const StoredUsage after, store().Usage({}));
  EXPECT_EQ(after.byte_count - before.byte_count, bytes_apart + spec_bytes);
}

}  // namespace
}  // namespace parplan
