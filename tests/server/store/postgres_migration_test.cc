// Databases of PostgreSQL that an older release made, and one that a newer release made.

#include <cstdint>
#include <memory>
#include <optional>
#include <pqxx/pqxx>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/store/postgres_pool.h"
#include "server/store/postgres_schema.h"
#include "tests/server/store/postgres_home.h"
#include "tests/server/store/store_conformance.h"

namespace parplan {
namespace {

// Makes a database of an older schema with these plans. Released migrations are never edited, so
// those of this release make what the older release made.
void MakeOlderDatabase(const PostgresHome& home, int schema, bool has_owner,
                       const std::vector<PlanRecord>& plans) {
  ASSERT_OK_AND_ASSIGN(const auto pool, PostgresPool::Open({.uri = home.uri()}));
  ASSERT_OK(MigratePostgres(*pool, SampleTime(0), schema));
  ASSERT_EQ(Ask(home.uri(), "SELECT max(version) FROM schema_version"), absl::StrCat(schema));
  std::string rows;
  for (const PlanRecord& plan : plans) {
    rows += InsertPlanStatement(plan, has_owner,
                                absl::StrCat("'\\x", absl::BytesToHexString(plan.bytes), "'"));
  }
  ASSERT_OK(pool->Write([&rows](pqxx::transaction_base& transaction) {
    transaction.exec(rows);
    return absl::OkStatus();
  }));
}

TEST(PostgresMigration, ExecutionsOfBeforeCountForTheOwnersOfTheirPlans) {
  PostgresHome home;
  PlanRecord plan = SamplePlan("c", "plan", 20);
  plan.owner = "cn:me";
  ASSERT_NO_FATAL_FAILURE(MakeOlderDatabase(home, 7, true, {plan}));
  ExecutionRecord execution = SampleExecution(plan.name, "e");
  execution.owner = plan.owner;
  execution.window_count = 1;
  {
    ASSERT_OK_AND_ASSIGN(const auto pool, PostgresPool::Open({.uri = home.uri()}));
    ASSERT_OK(pool->Write([&](pqxx::transaction_base& transaction) {
      transaction.exec(absl::StrCat(
          "INSERT INTO executions (sequence, name, plan, execution_id, request_id, state, "
          "start_time, end_time, window_count, failure_reason, report_time, bytes) VALUES (1, '",
          execution.name, "', '", plan.name, "', 'e', 'request-e', 1, ",
          absl::ToUnixNanos(execution.start_time), ", 9223372036854775807, 1, '', ",
          absl::ToUnixNanos(execution.report_time), ", '\\x",
          absl::BytesToHexString(execution.bytes),
          "'); INSERT INTO windows VALUES (1, 0, 0, 10, 7, 7, '\\x5f', '\\x5f5f')"));
      return absl::OkStatus();
    }));
  }
  ASSERT_OK_AND_ASSIGN(const auto store, home.Open());
  EXPECT_THAT(store->GetExecution(execution.name), IsOkAndHolds(execution));
  const StoredUsage usage{1, 20, ExecutionByteCount(execution) + kWindowRowBytes + 3};
  EXPECT_THAT(store->Usage({.owner = "cn:me"}), IsOkAndHolds(usage));
  EXPECT_THAT(store->Usage({.cluster = "c"}), IsOkAndHolds(usage));
}

TEST(PostgresMigration, PlansOfSchema2HaveNoOwnerAndKeepTheirRequests) {
  PostgresHome home;
  const PlanRecord first = SamplePlan("c", "first");
  const PlanRecord second = SamplePlan("c", "second");
  PlanRecord no_job = SamplePlan("c", "no-job");
  no_job.job_id.clear();
  no_job.request_id.clear();
  no_job.answer_key = "answer";
  ASSERT_NO_FATAL_FAILURE(MakeOlderDatabase(home, 2, false, {first, second, no_job}));
  ASSERT_OK_AND_ASSIGN(const auto store, home.Open());
  for (const PlanRecord& plan : {first, second, no_job}) {
    EXPECT_THAT(store->GetPlan(plan.name), IsOkAndHolds(plan));
  }
  EXPECT_THAT(store->FindPlanByRequestId("c", "", "request-first"),
              IsOkAndHolds(testing::Optional(first)));
  EXPECT_THAT(store->FindPlanOfJob("c", "job"), IsOkAndHolds(testing::Optional(second)));
  EXPECT_THAT(store->FindPlanByAnswer("c", "answer"), IsOkAndHolds(testing::Optional(no_job)));
  // A request id is an owner's from now on.
  PlanRecord mine = SamplePlan("c", "mine");
  mine.owner = "cn:me";
  mine.request_id = "request-first";
  EXPECT_THAT(store->PutPlan(mine), IsOkAndHolds(mine));
  ASSERT_OK_AND_ASSIGN(const auto own, store->ListOwnPlans("c", {.owner = "cn:me"}, {}));
  EXPECT_THAT(own.records, testing::ElementsAre(mine));
}

TEST(PostgresMigration, JobsOfSchema3HaveTheirFirstOwnerAndNumbersGoOn) {
  PostgresHome home;
  const PlanRecord before_roles = SamplePlan("c", "1");
  PlanRecord mine = SamplePlan("c", "2");
  mine.owner = "cn:me";
  PlanRecord theirs = SamplePlan("c", "3");
  theirs.owner = "cn:you";
  PlanRecord of_other = SamplePlan("d", "4");
  of_other.owner = "cn:you";
  PlanRecord no_job = SamplePlan("c", "5");
  no_job.owner = "cn:me";
  no_job.job_id.clear();
  ASSERT_NO_FATAL_FAILURE(
      MakeOlderDatabase(home, 3, true, {before_roles, mine, theirs, of_other, no_job}));
  ASSERT_OK_AND_ASSIGN(const auto store, home.Open());
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

// A server of the release before still writes.
TEST(PostgresMigration, APlanThatIsStoredMeanwhileIsCounted) {
  PostgresHome home;
  const PlanRecord plan = SamplePlan("c", "plan");
  ASSERT_NO_FATAL_FAILURE(MakeOlderDatabase(home, 4, true, {}));
  pqxx::connection other(home.uri());
  pqxx::work work(other);
  work.exec(InsertPlanStatement(plan, true,
                                absl::StrCat("'\\x", absl::BytesToHexString(plan.bytes), "'")));
  absl::StatusOr<std::unique_ptr<Store>> store;
  std::thread migration([&] { store = home.Open(); });
  // It waits for the other server's transaction.
  while (Ask(home.uri(), "SELECT count(*) FROM pg_locks WHERE NOT granted") == "0") {
    std::this_thread::yield();
  }
  work.commit();
  migration.join();
  ASSERT_OK(store);
  EXPECT_THAT((*store)->Usage({}),
              IsOkAndHolds(StoredUsage{1, static_cast<int64_t>(plan.bytes.size())}));
}

TEST(PostgresMigration, ANewerSchemaIsRefusedAndLeftAlone) {
  PostgresHome home;
  {
    ASSERT_OK_AND_ASSIGN(const auto store, home.Open());
    ASSERT_OK(store->PutPlan(SamplePlan("c", "p")));
  }
  Ask(home.uri(), "INSERT INTO schema_version VALUES (1000, 'from the future', 0) RETURNING 1");
  const auto store = home.Open();
  EXPECT_THAT(store, StatusIs(absl::StatusCode::kFailedPrecondition,
                              testing::AllOf(testing::HasSubstr("schema 1000"),
                                             testing::HasSubstr("newer server"))));
  EXPECT_EQ(ReasonOf(store), Reason::kStoreUnavailable);
  Ask(home.uri(), "DELETE FROM schema_version WHERE version = 1000 RETURNING 1");
  ASSERT_OK_AND_ASSIGN(const auto reopened, home.Open());
  EXPECT_OK(reopened->GetPlan(SamplePlan("c", "p").name));
}

TEST(PostgresMigration, RecordsOfSchema4AreCountedAndProfilesHaveNoOwner) {
  PostgresHome home;
  PlanRecord mine = SamplePlan("c", "1");
  mine.owner = "cn:me";
  const PlanRecord nobodys = SamplePlan("c", "2");
  ASSERT_NO_FATAL_FAILURE(MakeOlderDatabase(home, 4, true, {mine, nobodys}));
  ASSERT_OK_AND_ASSIGN(const auto store, home.Open());
  const auto bytes = static_cast<int64_t>(mine.bytes.size());
  EXPECT_THAT(store->Usage({.cluster = "c"}), IsOkAndHolds(StoredUsage{2, 2 * bytes}));
  EXPECT_THAT(store->Usage({.owner = "cn:me"}), IsOkAndHolds(StoredUsage{1, bytes}));
  EXPECT_THAT(store->DeleteExpiredPlans(absl::InfiniteFuture(), 10, {.owner = "cn:me"}),
              IsOkAndHolds(1));
  EXPECT_THAT(store->Usage({}), IsOkAndHolds(StoredUsage{1, bytes}));
}

TEST(PostgresMigration, PlansOfSchema6KeepTheirSpecsInTheirBytes) {
  PostgresHome home;
  const PlanRecord before = SamplePlan("c", "before");
  ASSERT_NO_FATAL_FAILURE(MakeOlderDatabase(home, 6, true, {before}));
  ASSERT_OK_AND_ASSIGN(const auto store, home.Open());
  EXPECT_THAT(store->GetPlan(before.name), IsOkAndHolds(before));
  PlanRecord after = SamplePlan("c", "after");
  after.spec = "spec";
  EXPECT_THAT(store->PutPlan(after), IsOkAndHolds(after));
  EXPECT_THAT(store->GetPlan(after.name), IsOkAndHolds(after));
}

}  // namespace
}  // namespace parplan
