// The PostgreSQL store: it conforms, and several servers can have one.

#include "server/store/postgres_store.h"

#include <atomic>
#include <memory>
#include <pqxx/pqxx>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "server/store/postgres_schema.h"
#include "tests/server/store/postgres_home.h"
#include "tests/server/store/store_conformance.h"

namespace parplan {
namespace {

std::unique_ptr<StoreHome> MakePostgresHome() { return std::make_unique<PostgresHome>(); }

INSTANTIATE_TEST_SUITE_P(Postgres, StoreConformance, testing::Values(&MakePostgresHome));

TEST(PostgresStore, WhatOneServerStoredTheOthersSeeAtOnce) {
  PostgresHome home;
  ASSERT_OK_AND_ASSIGN(const auto first, home.Open());
  ASSERT_OK_AND_ASSIGN(const auto second, home.Open());
  for (int i = 0; i < 20; ++i) {
    Store& writer = i % 2 == 0 ? *first : *second;
    Store& reader = i % 2 == 0 ? *second : *first;
    const std::string id = absl::StrCat(i);
    ASSERT_OK(writer.PutProfile(SampleProfile("c", "n", id)));
    EXPECT_THAT(reader.ProfileRevision("c"), IsOkAndHolds(i + 1));
    ASSERT_OK(writer.PutPlan(SamplePlan("c", id)));
    EXPECT_OK(reader.GetPlan(SamplePlan("c", id).name));
    ASSERT_OK(writer.PutCalibration(SampleCalibration("c", id)));
    ASSERT_OK(writer.ActivateCalibration("c", SampleCalibration("c", id).name, SampleTime(i)));
    EXPECT_EQ(reader.ActiveCalibration("c")->name, SampleCalibration("c", id).name);
  }
}

TEST(PostgresStore, EqualRequestsToTwoServersGiveOnePlan) {
  PostgresHome home;
  ASSERT_OK_AND_ASSIGN(const auto first, home.Open());
  ASSERT_OK_AND_ASSIGN(const auto second, home.Open());
  for (int round = 0; round < 20; ++round) {
    std::string names[2];
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] {
        PlanRecord plan = SamplePlan("c", absl::StrCat(round, "-", i));
        plan.request_id = absl::StrCat("round-", round);
        plan.plan_key = "key";
        const auto stored = (i == 0 ? first : second)->PutPlan(plan);
        names[i] = stored.ok() ? stored->name : stored.status().ToString();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(names[0], names[1]);
    EXPECT_THAT(first->CountPlans("c"), IsOkAndHolds(round + 1));
  }
}

// Whatever isolation the database has by default.
TEST(PostgresStore, ServersThatStartTogetherMigrateOnce) {
  for (const char* const isolation : {"read%20committed", "repeatable%20read", "serializable"}) {
    PostgresHome home;
    const std::string uri = absl::StrCat(home.uri(), "%20-cdefault_transaction_isolation%3D",
                                         absl::StrReplaceAll(isolation, {{"%20", "%5C%20"}}));
    ASSERT_EQ(Ask(uri, "SHOW default_transaction_isolation"),
              absl::StrReplaceAll(isolation, {{"%20", " "}}));
    std::vector<std::thread> threads;
    std::vector<absl::Status> results(8);
    for (absl::Status& result : results) {
      threads.emplace_back([&] { result = PostgresStore::Open({.uri = uri}).status(); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& result : results) EXPECT_OK(result);
    EXPECT_EQ(Ask(home.uri(), "SELECT count(*) FROM schema_version"),
              absl::StrCat(NewestPostgresSchema()));
  }
}

// Servers that give one spec to new plans while others delete the last plan that has it.
TEST(PostgresStore, ASpecStaysForPlansThatGetItMeanwhile) {
  PostgresHome home;
  ASSERT_OK_AND_ASSIGN(const auto first, home.Open());
  ASSERT_OK_AND_ASSIGN(const auto second, home.Open());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const auto& store = i % 2 == 0 ? first : second;
      for (int round = 0; round < 15; ++round) {
        PlanRecord plan = SamplePlan("c", absl::StrCat(i, "-", round));
        plan.owner = absl::StrCat("cn:", i);
        plan.spec = "shared";
        EXPECT_THAT(store->PutPlan(plan), IsOkAndHolds(plan));
        EXPECT_THAT(store->GetPlan(plan.name), IsOkAndHolds(plan));
        // A deletion of the spec that finds this plan fails, and holds the plan until it has: the
        // plan is then left for the next time.
        absl::StatusOr<int64_t> deleted = 0;
        while (deleted.ok() && *deleted == 0) {
          deleted = store->DeleteExpiredPlans(absl::InfiniteFuture(), 1, {.owner = plan.owner});
        }
        EXPECT_THAT(deleted, IsOkAndHolds(1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Ask(home.uri(), "SELECT count(*) FROM specs"), "0");
  EXPECT_EQ(Ask(home.uri(), "SELECT count(*) FROM stored_usage"), "0");
}

// Each of two transactions deletes a plan while it still sees the other's.
TEST(PostgresStore, ASpecGoesWithTheLastTwoPlansThatAreDeletedAtTheSameTime) {
  PostgresHome home;
  ASSERT_OK_AND_ASSIGN(const auto store, home.Open());
  for (const char* const id : {"a", "b"}) {
    PlanRecord plan = SamplePlan("c", id);
    // Owners of their own, so that nothing but the spec is in both transactions.
    plan.owner = absl::StrCat("cn:", id);
    plan.spec = "shared";
    ASSERT_OK(store->PutPlan(plan));
  }
  pqxx::connection other(home.uri());
  pqxx::work deleting(other);
  deleting.exec_params("DELETE FROM plans WHERE name = $1", SamplePlan("c", "a").name);
  std::atomic<bool> is_over = false;
  std::thread meanwhile([&store, &is_over] {
    EXPECT_THAT(store->DeleteExpiredPlans(absl::InfiniteFuture(), 10), IsOkAndHolds(1));
    is_over = true;
  });
  const std::string waiting = absl::StrCat(
      "SELECT count(*) FROM pg_locks WHERE NOT granted AND transactionid IN (SELECT transactionid ",
      "FROM pg_locks WHERE granted AND pid = ", other.backendpid(), ")");
  while (!is_over && Ask(home.uri(), waiting) == "0") std::this_thread::yield();
  deleting.commit();
  meanwhile.join();
  EXPECT_EQ(Ask(home.uri(), "SELECT count(*) FROM specs"), "0");
}

// Changes of one owner and cluster by two servers at once, some of which delete.
TEST(PostgresStore, UsageIsRightAfterChangesAtTheSameTime) {
  PostgresHome home;
  ASSERT_OK_AND_ASSIGN(const auto first, home.Open());
  ASSERT_OK_AND_ASSIGN(const auto second, home.Open());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const auto& store = i % 2 == 0 ? first : second;
      for (int round = 0; round < 10; ++round) {
        const std::string id = absl::StrCat(i, "-", round);
        EXPECT_OK(store->PutProfile(SampleProfile("c", "n", id)));
        EXPECT_OK(store->PutPlan(SamplePlan("c", id)));
        EXPECT_OK(store->DeleteProfile(SampleProfile("c", "n", id).name));
        EXPECT_OK(store->DeleteExpiredPlans(absl::InfiniteFuture(), 1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_OK(first->DeleteExpiredPlans(absl::InfiniteFuture(), 100));
  EXPECT_THAT(first->Usage({}), IsOkAndHolds(StoredUsage{}));
  EXPECT_EQ(Ask(home.uri(), "SELECT count(*) FROM stored_usage"), "0");
}

// Calls of one owner would else wait for each other's commits.
TEST(PostgresStore, NoWriterWaitsForTheUsageThatAnotherCounts) {
  PostgresHome home;
  ASSERT_OK_AND_ASSIGN(const auto store, home.Open());
  const PlanRecord plan = SamplePlan("c", "a");
  ASSERT_OK(store->PutPlan(plan));
  ExecutionRecord execution = SampleExecution(plan.name, "e");
  ASSERT_OK(store->CreateExecution(execution));
  const StoredUsage before = *store->Usage({});
  pqxx::connection other(home.uri());
  pqxx::work counting(other);
  for (const char* const table : {"stored_usage", "execution_usage"}) {
    counting.exec(absl::StrCat("SELECT * FROM ", table, " FOR UPDATE"));
  }
  ASSERT_OK(store->PutPlan(SamplePlan("c", "b")));
  ASSERT_OK(store->CreateExecution(SampleExecution(plan.name, "f")));
  const StoredUsage twice = {.plan_count = 2,
                             .byte_count = 2 * before.byte_count,
                             .execution_byte_count = 2 * before.execution_byte_count};
  EXPECT_THAT(store->Usage({}), IsOkAndHolds(twice));
  // It ends without a change, as after a lost connection.
  counting.abort();
  EXPECT_THAT(store->Usage({}), IsOkAndHolds(twice));
  // The next change makes one row of the parts.
  ASSERT_OK(store->PutPlan(SamplePlan("c", "d")));
  EXPECT_EQ(Ask(home.uri(), "SELECT plan_count FROM stored_usage"), "3");
}

// A user who owns nothing and may make nothing needs no more than what is in the tables.
TEST(PostgresStore, AUserWhoMayMakeNoTablesCanUseThem) {
  PostgresHome home;
  ASSERT_OK(home.Open());
  const std::string schema = Ask(home.uri(), "SELECT current_schema()");
  PostgresProcess::Shared().Execute(absl::StrCat(
      "CREATE ROLE guest LOGIN; GRANT USAGE ON SCHEMA ", schema,
      " TO guest; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ", schema,
      " TO guest; GRANT USAGE ON ALL SEQUENCES IN SCHEMA ", schema, " TO guest"));
  std::string uri = home.uri();
  uri.replace(uri.find("parplan@"), 8, "guest@");
  {
    ASSERT_OK_AND_ASSIGN(const auto store, PostgresStore::Open({.uri = uri}));
    EXPECT_OK(store->PutPlan(SamplePlan("c", "p")));
    EXPECT_OK(store->PutProfile(SampleProfile("c", "n", "p")));
  }
  PostgresProcess::Shared().Execute("DROP OWNED BY guest; DROP ROLE guest");
}

// Two servers that plan for one job at the same time.
TEST(PostgresStore, AJobHasOneOwnerAndItsPlansHaveOneNumberEach) {
  PostgresHome home;
  ASSERT_OK_AND_ASSIGN(const auto first, home.Open());
  ASSERT_OK_AND_ASSIGN(const auto second, home.Open());
  for (int round = 0; round < 20; ++round) {
    absl::Status results[4];
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        PlanRecord plan = SamplePlan("c", absl::StrCat(round, "-", i));
        plan.job_id = absl::StrCat("job-", round);
        plan.owner = absl::StrCat("cn:", i);
        results[i] = (i % 2 == 0 ? first : second)->PutPlan(plan, JobClaim{plan.owner, 1}).status();
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_OK_AND_ASSIGN(const auto job,
                         first->FindJob("c", absl::StrCat("job-", round), SampleTime(0)));
    ASSERT_TRUE(job.has_value());
    EXPECT_EQ(job->generation, 1);
    for (int i = 0; i < 4; ++i) {
      if (job->owner == absl::StrCat("cn:", i)) {
        EXPECT_OK(results[i]);
      } else {
        EXPECT_THAT(results[i], StatusIs(absl::StatusCode::kAborted));
      }
    }
    EXPECT_THAT(first->CountPlans("c"), IsOkAndHolds(round + 1));
  }
}

// Each server counts on from what it sees until it gets a number.
TEST(PostgresStore, ServersNumberThePlansOfAJobOneAfterTheOther) {
  PostgresHome home;
  ASSERT_OK_AND_ASSIGN(const auto first, home.Open());
  ASSERT_OK_AND_ASSIGN(const auto second, home.Open());
  constexpr int kPlansOfEach = 15;
  std::vector<std::thread> threads;
  for (Store* const store : {first.get(), second.get()}) {
    threads.emplace_back([store, is_first = store == first.get()] {
      for (int i = 0; i < kPlansOfEach;) {
        const auto job = store->FindJob("c", "job", SampleTime(0));
        ASSERT_OK(job.status());
        const int64_t next = job->has_value() ? (*job)->generation + 1 : 1;
        const auto stored = store->PutPlan(SamplePlan("c", absl::StrCat(is_first, "-", i)),
                                           JobClaim{"cn:me", next});
        if (stored.status().code() == absl::StatusCode::kAborted) continue;
        ASSERT_OK(stored.status());
        ++i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // As many numbers as plans: none was given twice.
  ASSERT_OK_AND_ASSIGN(const auto job, first->FindJob("c", "job", SampleTime(0)));
  EXPECT_EQ(job->generation, 2 * kPlansOfEach);
  EXPECT_THAT(first->CountPlans("c"), IsOkAndHolds(2 * kPlansOfEach));
}

// Each statement of the hot path must find its rows by an index.
TEST(PostgresStore, LookUpsDoNotScanTables) {
  PostgresHome home;
  ASSERT_OK(home.Open());
  const std::pair<const char*, const char*> cases[] = {
      {"SELECT bytes FROM plans WHERE cluster = 'c' AND plan_key = 'k7' AND job_id = 'j7' "
       "AND expire_time > 1 ORDER BY sequence DESC LIMIT 1",
       "plans_by_key"},
      {"SELECT bytes FROM plans WHERE cluster = 'c' AND request_id = 'r7' AND request_id <> ''",
       "plans_by_request"},
      {"SELECT bytes FROM plans WHERE cluster = 'c' AND answer_key = 'a7' AND answer_key <> '' "
       "ORDER BY sequence DESC LIMIT 1",
       "plans_by_answer"},
      {"SELECT sequence FROM plans WHERE cluster = 'c' AND owner = 'o7' AND owner <> '' "
       "AND sequence < 9999 ORDER BY sequence DESC LIMIT 3",
       "plans_by_owner"},
      {"SELECT of_job.sequence FROM json_array_elements_text('[\"j7\"]'::json) AS job (id) "
       "CROSS JOIN LATERAL (SELECT sequence FROM plans WHERE cluster = 'c' AND job_id = job.id "
       "AND job_id <> '' AND sequence < 9999 ORDER BY sequence DESC LIMIT 3) AS of_job",
       "plans_by_job"},
      {"SELECT sequence FROM profiles WHERE cluster = 'c' AND '' = '' AND sequence < 9 "
       "ORDER BY sequence DESC LIMIT 3",
       "profiles_by_cluster"},
      {"SELECT sequence FROM executions WHERE plan = 'p' AND sequence < 9 "
       "ORDER BY sequence DESC LIMIT 3",
       "executions_by_plan"}};
  pqxx::connection connection(home.uri());
  pqxx::nontransaction transaction(connection);
  // Empty tables are cheaper to scan. In this one all rows are of one cluster.
  transaction.exec(
      "INSERT INTO plans (name, cluster, plan_id, plan_key, answer_key, request_id, job_id, "
      "topology_digest, profile_digest, create_time, expire_time, bytes, owner) "
      "SELECT 'n' || i, 'c', i, 'k' || i, 'a' || i, 'r' || i, 'j' || i % 50, '', '', i, i, '', 'o' "
      "|| i % 50 "
      "FROM generate_series(1, 2000) AS i; ANALYZE plans; "
      "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off");
  for (const auto& [query, index] : cases) {
    std::string plan;
    for (const pqxx::row& row : transaction.exec(absl::StrCat("EXPLAIN ", query))) {
      absl::StrAppend(&plan, row[0].c_str(), "\n");
    }
    EXPECT_THAT(plan, testing::HasSubstr(index));
    EXPECT_THAT(plan, testing::Not(testing::HasSubstr("Sort"))) << query;
  }
}

}  // namespace
}  // namespace parplan
