// Deletion of what is old by several servers on one PostgreSQL.

#include <pqxx/pqxx>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/store/postgres_locks.h"
#include "tests/server/store/postgres_home.h"
#include "tests/server/store/store_conformance.h"

namespace parplan {
namespace {

// An execution of `plan` that ran for an hour until `end_time`.
void PutEnded(Store& store, const PlanRecord& plan, const std::string& id, absl::Time end_time) {
  ExecutionRecord execution = SampleExecution(plan.name, id);
  execution.start_time = end_time - absl::Hours(1);
  ASSERT_OK(store.CreateExecution(execution));
  ASSERT_OK(store.SetExecutionState(execution.name, ExecutionState::kRunning,
                                    ExecutionState::kSucceeded, end_time, ""));
}

TEST(PostgresDeletion, OneServerAtATimeDeletesExecutions) {
  PostgresHome home;
  ASSERT_OK_AND_ASSIGN(const auto store, home.Open());
  const PlanRecord plan = SamplePlan("c", "plan");
  ASSERT_OK(store->PutPlan(plan));
  ASSERT_NO_FATAL_FAILURE(PutEnded(*store, plan, "old", SampleTime(50)));
  {
    pqxx::connection other(home.uri());
    pqxx::work deleting(other);
    deleting.exec_params("SELECT pg_advisory_xact_lock($1)", kDeletionLock);
    EXPECT_THAT(store->DeleteOldExecutions(SampleTime(60), absl::Seconds(10), 9), IsOkAndHolds(0));
  }
  EXPECT_THAT(store->DeleteOldExecutions(SampleTime(60), absl::Seconds(10), 9), IsOkAndHolds(1));
}

// The other servers and the database agree on the time, and what is young to them stays.
TEST(PostgresDeletion, AServerWhoseClockIsAheadDeletesNoYoungExecutions) {
  PostgresHome home;
  ASSERT_OK_AND_ASSIGN(const auto store, home.Open());
  const PlanRecord plan = SamplePlan("c", "plan");
  ASSERT_OK(store->PutPlan(plan));
  const absl::Time now = absl::Now();
  const absl::Duration day = absl::Hours(24);
  ASSERT_NO_FATAL_FAILURE(PutEnded(*store, plan, "old", now - 3 * day));
  ASSERT_NO_FATAL_FAILURE(PutEnded(*store, plan, "young", now));
  EXPECT_THAT(store->DeleteOldExecutions(now - 3 * day, day, 9), IsOkAndHolds(0));
  EXPECT_THAT(store->DeleteOldExecutions(now + 400 * day, day, 9), IsOkAndHolds(1));
  EXPECT_OK(store->GetExecution(SampleExecution(plan.name, "young").name));
}

// For a caller whose quota is used up a server waits; hourly maintenance comes back later.
TEST(PostgresDeletion, OneServerAtATimeDeletesExpiredPlans) {
  PostgresHome home;
  ASSERT_OK_AND_ASSIGN(const auto first, home.Open());
  ASSERT_OK_AND_ASSIGN(const auto second, home.Open());
  PlanRecord plan = SamplePlan("c", "plan");
  plan.owner = "cn:me";
  ASSERT_OK(first->PutPlan(plan));
  ASSERT_OK(first->PutPlan(SamplePlan("c", "other")));
  std::thread waits;
  {
    pqxx::connection third(home.uri());
    pqxx::work deleting(third);
    deleting.exec_params("SELECT pg_advisory_xact_lock($1)", kDeletionLock);
    EXPECT_THAT(first->DeleteExpiredPlans(absl::InfiniteFuture(), 9), IsOkAndHolds(0));
    EXPECT_THAT(second->DeleteExpiredPlans(absl::InfiniteFuture(), 9), IsOkAndHolds(0));
    waits = std::thread([&second] {
      EXPECT_THAT(second->DeleteExpiredPlans(absl::InfiniteFuture(), 9, {.owner = "cn:me"}),
                  IsOkAndHolds(1));
    });
    const std::string waiting =
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    while (Ask(home.uri(), waiting) == "0") std::this_thread::yield();
    EXPECT_OK(first->GetPlan(plan.name));
  }
  waits.join();
  EXPECT_THAT(first->DeleteExpiredPlans(absl::InfiniteFuture(), 9), IsOkAndHolds(1));
}

// A server that reads a wrong time from its clock twice deletes what is old to the database alone.
TEST(PostgresDeletion, AServerWhoseClockIsAheadDeletesNoPlansThatAreValid) {
  PostgresHome home;
  ASSERT_OK_AND_ASSIGN(const auto store, home.Open());
  const absl::Time now = absl::Now();
  const absl::Duration day = absl::Hours(24);
  PlanRecord old = SamplePlan("c", "old");
  old.expire_time = now - 3 * day;
  PlanRecord recent = SamplePlan("c", "recent");
  recent.expire_time = now - day / 2;
  PlanRecord valid = SamplePlan("c", "valid");
  valid.expire_time = now + 30 * day;
  for (const PlanRecord& plan : {old, recent, valid}) ASSERT_OK(store->PutPlan(plan));
  EXPECT_THAT(store->DeleteExpiredPlans(now - 3 * day, day, 9, {}), IsOkAndHolds(0));
  EXPECT_THAT(store->DeleteExpiredPlans(now + 400 * day, day, 9, {}), IsOkAndHolds(1));
  EXPECT_OK(store->GetPlan(recent.name));
  EXPECT_OK(store->GetPlan(valid.name));
  EXPECT_THAT(store->DeleteExpiredPlans(now + 400 * day, 9), IsOkAndHolds(1));
  EXPECT_OK(store->GetPlan(valid.name));
}

}  // namespace
}  // namespace parplan
