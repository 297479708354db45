// The PostgreSQL store where the world fails it: connections that break, a database that is
// away, refuses, or may only be read.

#include <memory>
#include <pqxx/pqxx>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/store/postgres_store.h"
#include "tests/server/store/postgres_process.h"
#include "tests/server/store/store_conformance.h"

namespace parplan {
namespace {

using testing::HasSubstr;

// Ends every other session, as an administrator may.
constexpr char kEndSessions[] =
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE application_name = 'parplan-server'";

// A schema for one test, and the store in it.
class PostgresFailures : public testing::Test {
 protected:
  void SetUp() override {
    postgres().Execute("DROP SCHEMA IF EXISTS failures CASCADE; CREATE SCHEMA failures");
  }
  void TearDown() override { postgres().Execute("DROP SCHEMA failures CASCADE"); }

  PostgresProcess& postgres() { return PostgresProcess::Shared(); }
  std::string Uri() { return postgres().uri("options=-csearch_path%3Dfailures"); }
  absl::StatusOr<std::unique_ptr<PostgresStore>> Open() {
    return PostgresStore::Open({.uri = Uri(), .patience = absl::Minutes(3)});
  }
};

TEST_F(PostgresFailures, BrokenConnectionsAreReplacedUnseen) {
  ASSERT_OK_AND_ASSIGN(const auto store, Open());
  for (int i = 0; i < 5; ++i) {
    const PlanRecord plan = SamplePlan("c", absl::StrCat(i));
    ASSERT_OK(store->PutPlan(plan));
    postgres().Execute(kEndSessions);
    EXPECT_OK(store->GetPlan(plan.name));
    postgres().Execute(kEndSessions);
  }
  EXPECT_THAT(store->CountPlans("c"), IsOkAndHolds(5));
}

TEST_F(PostgresFailures, ADatabaseThatStartsAgainIsWaitedFor) {
  ASSERT_OK_AND_ASSIGN(const auto store, Open());
  ASSERT_OK(store->PutPlan(SamplePlan("c", "before")));
  postgres().KillAndStart();
  EXPECT_OK(store->GetPlan(SamplePlan("c", "before").name));
  EXPECT_OK(store->PutPlan(SamplePlan("c", "after")));
}

TEST_F(PostgresFailures, ADatabaseThatIsAwayIsUnavailable) {
  ASSERT_OK_AND_ASSIGN(const auto store,
                       PostgresStore::Open({.uri = Uri(), .patience = absl::Seconds(1)}));
  postgres().Stop();
  const auto refused = store->PutPlan(SamplePlan("c", "p"));
  const auto unopened = PostgresStore::Open({.uri = Uri(), .patience = absl::ZeroDuration()});
  postgres().Start();
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("PostgreSQL is away")));
  EXPECT_EQ(ReasonOf(refused), Reason::kStoreUnavailable);
  EXPECT_THAT(unopened, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("PostgreSQL is away")));
  EXPECT_THAT(store->CountPlans("c"), IsOkAndHolds(0));
}

// The session ends during a commit: only the database knows whether it was committed.
TEST_F(PostgresFailures, ACommitWhoseAnswerIsLostIsUnavailableAndMayBeRepeated) {
  ASSERT_OK_AND_ASSIGN(const auto store, Open());
  postgres().Execute(
      "CREATE FUNCTION failures.vanish() RETURNS trigger LANGUAGE plpgsql AS "
      "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;"
      "CREATE CONSTRAINT TRIGGER vanish AFTER INSERT ON failures.plans "
      "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION failures.vanish()");
  const auto lost = store->PutPlan(SamplePlan("c", "p"));
  EXPECT_THAT(lost, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("may or may not")));
  EXPECT_EQ(ReasonOf(lost), Reason::kStoreUnavailable);
  postgres().Execute("DROP TRIGGER vanish ON failures.plans");
  EXPECT_THAT(store->PutPlan(SamplePlan("c", "p")), IsOkAndHolds(SamplePlan("c", "p")));
  EXPECT_THAT(store->PutPlan(SamplePlan("c", "p")), IsOkAndHolds(SamplePlan("c", "p")));
  EXPECT_THAT(store->CountPlans("c"), IsOkAndHolds(1));
}

TEST_F(PostgresFailures, AStandbyIsUnavailableForWrites) {
  ASSERT_OK(Open());
  ASSERT_OK_AND_ASSIGN(
      const auto store,
      PostgresStore::Open({.uri = postgres().uri("options=-csearch_path%3Dfailures%20"
                                                 "-cdefault_transaction_read_only%3Don")}));
  EXPECT_THAT(store->PutPlan(SamplePlan("c", "p")),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("the primary")));
  EXPECT_THAT(store->CountPlans("c"), IsOkAndHolds(0));
}

TEST_F(PostgresFailures, AWrongUserOrDatabaseIsSaidAtOnce) {
  for (const char* const wrong : {"postgres://nobody@/postgres", "postgres://parplan@/none"}) {
    std::string uri = postgres().uri();
    uri.replace(0, uri.find('?'), wrong);
    // Waiting would take longer than the test may.
    const auto store = PostgresStore::Open({.uri = uri, .patience = absl::Hours(1)});
    EXPECT_THAT(store, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("pg_hba.conf")));
  }
}

TEST_F(PostgresFailures, ADatabaseOfAnotherEncodingIsRefused) {
  postgres().Execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'");
  std::string uri = postgres().uri();
  uri.replace(0, uri.find('?'), "postgres://parplan@/latin");
  EXPECT_THAT(PostgresStore::Open({.uri = uri}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("ENCODING 'UTF8'")));
  postgres().Execute("DROP DATABASE latin WITH (FORCE)");
}

TEST_F(PostgresFailures, ALockHeldByAnotherProgramDelaysNoReader) {
  ASSERT_OK_AND_ASSIGN(const auto store, Open());
  ASSERT_OK(store->PutPlan(SamplePlan("c", "p")));
  ASSERT_OK(store->CreateExecution(SampleExecution(SamplePlan("c", "p").name, "e")));
  pqxx::connection other(Uri());
  pqxx::work holding(other);
  holding.exec("SELECT 1 FROM executions FOR UPDATE");
  EXPECT_OK(store->GetExecution(SampleExecution(SamplePlan("c", "p").name, "e").name));
  EXPECT_OK(store->PutPlan(SamplePlan("c", "q")));
}

}  // namespace
}  // namespace parplan
