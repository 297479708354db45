#include "tests/server/store/migration_conformance.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace parplan {

// Bytes of each plan.
constexpr int64_t kOlderPlanSize = 20;

std::string MigrationConformance::Insert(const PlanRecord& plan, bool has_owner) const {
  return InsertPlanStatement(plan, has_owner, database_->BytesLiteral(plan.bytes));
}

TEST_P(MigrationConformance, PlansFromBeforeOwnersHaveNoneAndKeepTheirRequests) {
  const PlanRecord first = SamplePlan("c", "first", kOlderPlanSize);
  const PlanRecord second = SamplePlan("c", "second", kOlderPlanSize);
  PlanRecord no_job = SamplePlan("c", "no-job", kOlderPlanSize);
  no_job.job_id.clear();
  no_job.request_id.clear();
  no_job.answer_key = "answer";
  database().MakeBefore(
      SchemaChange::kPlanOwners,
      absl::StrCat(Insert(first, false), Insert(second, false), Insert(no_job, false)));
  ASSERT_OK_AND_ASSIGN(const auto store, database().Open());
  for (const PlanRecord& plan : {first, second, no_job}) {
    EXPECT_THAT(store->GetPlan(plan.name), IsOkAndHolds(plan));
  }
  EXPECT_THAT(store->FindPlanByRequestId("c", "", "request-first"),
              IsOkAndHolds(testing::Optional(first)));
  EXPECT_THAT(store->FindPlanOfJob("c", "job"), IsOkAndHolds(testing::Optional(second)));
  EXPECT_THAT(store->FindPlanByAnswer("c", "answer"), IsOkAndHolds(testing::Optional(no_job)));
  // A request id is an owner's from now on.
  PlanRecord mine = SamplePlan("c", "mine", kOlderPlanSize);
  mine.owner = "cn:me";
  mine.request_id = "request-first";
  EXPECT_THAT(store->PutPlan(mine), IsOkAndHolds(mine));
  ASSERT_OK_AND_ASSIGN(const auto own, store->ListOwnPlans("c", {.owner = "cn:me"}, {}));
  EXPECT_THAT(own.records, testing::ElementsAre(mine));
}

TEST_P(MigrationConformance, JobsFromBeforeTheirTableHaveTheirFirstOwnerAndNumbersGoOn) {
  PlanRecord before_roles = SamplePlan("c", "1", kOlderPlanSize);
  PlanRecord mine = SamplePlan("c", "2", kOlderPlanSize);
  mine.owner = "cn:me";
  PlanRecord theirs = SamplePlan("c", "3", kOlderPlanSize);
  theirs.owner = "cn:you";
  PlanRecord of_other = SamplePlan("d", "4", kOlderPlanSize);
  of_other.owner = "cn:you";
  PlanRecord no_job = SamplePlan("c", "5", kOlderPlanSize);
  no_job.owner = "cn:me";
  no_job.job_id.clear();
  std::string rows;
  for (const PlanRecord& plan : {before_roles, mine, theirs, of_other, no_job}) {
    rows += Insert(plan, true);
  }
  database().MakeBefore(SchemaChange::kJobs, rows);
  ASSERT_OK_AND_ASSIGN(const auto store, database().Open());
  EXPECT_THAT(store->FindJob("c", "job", SampleTime(0)),
              IsOkAndHolds(testing::Optional(JobRecord{"cn:me", 3, true})));
  EXPECT_THAT(store->FindJob("d", "job", SampleTime(9999)),
              IsOkAndHolds(testing::Optional(JobRecord{"cn:you", 4, false})));
  EXPECT_THAT(store->FindJob("c", "", SampleTime(0)), IsOkAndHolds(std::nullopt));
  ASSERT_OK_AND_ASSIGN(const auto own, store->ListOwnPlans("c", {.owner = "cn:me"}, {}));
  EXPECT_THAT(own.records, testing::ElementsAre(no_job, mine));
  EXPECT_THAT(store->PutPlan(SamplePlan("c", "6"), JobClaim{"cn:me", 3}),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_OK(store->PutPlan(SamplePlan("c", "6"), JobClaim{"cn:me", 4}));
}

TEST_P(MigrationConformance, PlansFromBeforeUsageWasKeptAreCounted) {
  PlanRecord mine = SamplePlan("c", "1", kOlderPlanSize);
  mine.owner = "cn:me";
  const PlanRecord nobodys = SamplePlan("c", "2", kOlderPlanSize);
  database().MakeBefore(SchemaChange::kUsage,
                        absl::StrCat(Insert(mine, true), Insert(nobodys, true)));
  ASSERT_OK_AND_ASSIGN(const auto store, database().Open());
  EXPECT_THAT(store->Usage({.cluster = "c"}), IsOkAndHolds(StoredUsage{2, 2 * kOlderPlanSize}));
  EXPECT_THAT(store->Usage({.owner = "cn:me"}), IsOkAndHolds(StoredUsage{1, kOlderPlanSize}));
  EXPECT_THAT(store->DeleteExpiredPlans(absl::InfiniteFuture(), 10, {.owner = "cn:me"}),
              IsOkAndHolds(1));
  EXPECT_THAT(store->Usage({}), IsOkAndHolds(StoredUsage{1, kOlderPlanSize}));
}

TEST_P(MigrationConformance, PlansFromBeforeSpecsLayApartKeepThemInTheirBytes) {
  const PlanRecord before = SamplePlan("c", "before", kOlderPlanSize);
  database().MakeBefore(SchemaChange::kSpecs, Insert(before, true));
  ASSERT_OK_AND_ASSIGN(const auto store, database().Open());
  EXPECT_THAT(store->GetPlan(before.name), IsOkAndHolds(before));
  EXPECT_THAT(store->Usage({}), IsOkAndHolds(StoredUsage{1, kOlderPlanSize}));
  PlanRecord after = SamplePlan("c", "after", kOlderPlanSize);
  after.spec = "spec";
  after.expire_time = SampleTime(1);
  EXPECT_THAT(store->PutPlan(after), IsOkAndHolds(after));
  EXPECT_THAT(store->GetPlan(after.name), IsOkAndHolds(after));
  EXPECT_THAT(store->DeleteExpiredPlans(SampleTime(1), 10), IsOkAndHolds(1));
  EXPECT_THAT(store->GetPlan(before.name), IsOkAndHolds(before));
  EXPECT_THAT(store->Usage({}), IsOkAndHolds(StoredUsage{1, kOlderPlanSize}));
}

TEST_P(MigrationConformance, ExecutionsFromBeforeTheyHadOwnersCountForThoseOfTheirPlans) {
  PlanRecord plan = SamplePlan("c", "plan", kOlderPlanSize);
  plan.owner = "cn:me";
  ExecutionRecord execution = SampleExecution(plan.name, "e");
  execution.owner = plan.owner;
  execution.window_count = 2;
  std::string rows = Insert(plan, true);
  absl::StrAppend(&rows,
                  "INSERT INTO executions (sequence, name, plan, execution_id, request_id, state, "
                  "start_time, end_time, window_count, failure_reason, report_time, bytes) VALUES "
                  "(1, '",
                  execution.name, "', '", plan.name, "', 'e', 'request-e', 1, ",
                  absl::ToUnixNanos(execution.start_time), ", 9223372036854775807, 2, '', ",
                  absl::ToUnixNanos(execution.report_time), ", ",
                  database().BytesLiteral(execution.bytes), ");");
  // One byte of a window and two of its items, for each of two ranks.
  for (const char* rank : {"0", "1"}) {
    absl::StrAppend(&rows, "INSERT INTO windows VALUES (1, ", rank, ", 0, 10, 7, 7, ",
                    database().BytesLiteral("_"), ", ", database().BytesLiteral("__"), ");");
  }
  database().MakeBefore(SchemaChange::kExecutionOwners, rows);
  ASSERT_OK_AND_ASSIGN(const auto store, database().Open());
  EXPECT_THAT(store->GetExecution(execution.name), IsOkAndHolds(execution));
  const int64_t bytes = ExecutionByteCount(execution) + 2 * (kWindowRowBytes + 3);
  const StoredUsage usage{1, kOlderPlanSize, bytes};
  EXPECT_THAT(store->Usage({.owner = "cn:me"}), IsOkAndHolds(usage));
  EXPECT_THAT(store->Usage({.cluster = "c"}), IsOkAndHolds(usage));
  EXPECT_THAT(store->AppendWindows(execution.name, {SampleWindow(2, 0)}, {.byte_count = bytes},
                                   SampleTime(30)),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace parplan
