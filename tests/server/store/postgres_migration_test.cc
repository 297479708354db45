// Databases of PostgreSQL that an older release made, and one that a newer release made.

#include <cstdint>
#include <memory>
#include <pqxx/pqxx>
#include <string>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/store/postgres_pool.h"
#include "server/store/postgres_schema.h"
#include "tests/server/store/migration_conformance.h"
#include "tests/server/store/postgres_home.h"

namespace parplan {
namespace {

// Makes the tables of an older schema, and runs `statements` if there are any.
void MakeOlderTables(const PostgresHome& home, int schema, const std::string& statements) {
  ASSERT_OK_AND_ASSIGN(const auto pool, PostgresPool::Open({.uri = home.uri()}));
  ASSERT_OK(MigratePostgres(*pool, SampleTime(0), schema));
  ASSERT_EQ(Ask(home.uri(), "SELECT max(version) FROM schema_version"), absl::StrCat(schema));
  ASSERT_OK(pool->Write([&statements](pqxx::transaction_base& transaction) {
    if (!statements.empty()) transaction.exec(statements);
    return absl::OkStatus();
  }));
}

std::string PostgresLiteral(const std::string& bytes) {
  return absl::StrCat("'\\x", absl::BytesToHexString(bytes), "'");
}

class OlderPostgres : public OlderDatabase {
 public:
  void MakeBefore(SchemaChange change, const std::string& statements) override {
    MakeOlderTables(home_, SchemaBefore(change), statements);
  }
  std::string BytesLiteral(const std::string& bytes) const override {
    return PostgresLiteral(bytes);
  }
  absl::StatusOr<std::unique_ptr<Store>> Open() override { return home_.Open(); }

 private:
  static int SchemaBefore(SchemaChange change) {
    switch (change) {
      case SchemaChange::kPlanOwners:
        return 2;
      case SchemaChange::kJobs:
        return 3;
      case SchemaChange::kUsage:
        return 4;
      case SchemaChange::kSpecs:
        return 6;
      case SchemaChange::kExecutionOwners:
        return 7;
    }
    return 0;
  }

  PostgresHome home_;
};

std::unique_ptr<OlderDatabase> MakeOlderPostgres() { return std::make_unique<OlderPostgres>(); }

INSTANTIATE_TEST_SUITE_P(Postgres, MigrationConformance, testing::Values(&MakeOlderPostgres));

// A server of the release before still writes.
TEST(PostgresMigration, APlanThatIsStoredMeanwhileIsCounted) {
  PostgresHome home;
  const PlanRecord plan = SamplePlan("c", "plan");
  ASSERT_NO_FATAL_FAILURE(MakeOlderTables(home, 4, ""));
  pqxx::connection other(home.uri());
  pqxx::work work(other);
  work.exec(InsertPlanStatement(plan, true, PostgresLiteral(plan.bytes)));
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

}  // namespace
}  // namespace parplan
