// The SQLite store: it conforms, and keeps its files to itself.

#include "server/store/sqlite_store.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/store/sqlite_schema.h"
#include "tests/server/store/store_conformance.h"

namespace parplan {
namespace {

class SqliteHome : public StoreHome {
 public:
  ~SqliteHome() override { std::filesystem::remove_all(folder_); }
  absl::StatusOr<std::unique_ptr<Store>> Open() override {
    return SqliteStore::Open({.directory = folder_});
  }

 private:
  const std::string folder_ = MakeTestFolder();
};

std::unique_ptr<StoreHome> MakeSqliteHome() { return std::make_unique<SqliteHome>(); }

INSTANTIATE_TEST_SUITE_P(Sqlite, StoreConformance, testing::Values(&MakeSqliteHome));

// Runs statements behind the store's back.
void Tamper(const std::string& folder, const std::string& statements) {
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(absl::StrCat(folder, "/", kSqliteFileName).c_str(), &handle), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(handle, statements.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(handle);
  sqlite3_close(handle);
}

TEST(SqliteStore, MakesItsDirectoryAndFilesForTheOwnerAlone) {
  const std::string folder = absl::StrCat(MakeTestFolder(), "/data");
  ASSERT_OK_AND_ASSIGN(const auto store, SqliteStore::Open({.directory = folder}));
  ASSERT_OK(store->PutPlan(SamplePlan("c", "p")));
  struct stat status;
  ASSERT_EQ(stat(folder.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700);
  int file_count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    ASSERT_EQ(stat(entry.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600) << entry.path();
    ++file_count;
  }
  EXPECT_EQ(file_count, 4);  // Database, log, shared memory, lock.
}

TEST(SqliteStore, TwoServersOnOneDirectoryAreRefused) {
  const std::string folder = MakeTestFolder();
  {
    ASSERT_OK_AND_ASSIGN(const auto first, SqliteStore::Open({.directory = folder}));
    const auto second = SqliteStore::Open({.directory = folder});
    EXPECT_THAT(second,
                StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr("another server")));
    EXPECT_EQ(ReasonOf(second), Reason::kStoreUnavailable);
    EXPECT_OK(first->PutPlan(SamplePlan("c", "p")));
  }
  EXPECT_OK(SqliteStore::Open({.directory = folder}));
}

TEST(SqliteStore, ANewerSchemaIsRefusedAndLeftAlone) {
  const std::string folder = MakeTestFolder();
  {
    ASSERT_OK_AND_ASSIGN(const auto store, SqliteStore::Open({.directory = folder}));
    ASSERT_OK(store->PutPlan(SamplePlan("c", "p")));
  }
  Tamper(folder, "INSERT INTO schema_version VALUES (1000, 'from the future', 0)");
  const auto store = SqliteStore::Open({.directory = folder});
  EXPECT_THAT(store, StatusIs(absl::StatusCode::kFailedPrecondition,
                              testing::AllOf(testing::HasSubstr("schema 1000"),
                                             testing::HasSubstr("newer server"))));
  EXPECT_EQ(ReasonOf(store), Reason::kStoreUnavailable);
  Tamper(folder, "DELETE FROM schema_version WHERE version = 1000");
  ASSERT_OK_AND_ASSIGN(const auto reopened, SqliteStore::Open({.directory = folder}));
  EXPECT_OK(reopened->GetPlan(SamplePlan("c", "p").name));
}

TEST(SqliteStore, EveryMigrationIsRecordedOnce) {
  const std::string folder = MakeTestFolder();
  for (int i = 0; i < 2; ++i) ASSERT_OK(SqliteStore::Open({.directory = folder}));
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(absl::StrCat(folder, "/", kSqliteFileName).c_str(), &handle), SQLITE_OK);
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(handle, "SELECT count(*), max(version) FROM schema_version", -1, &statement,
                     nullptr);
  ASSERT_EQ(sqlite3_step(statement), SQLITE_ROW);
  EXPECT_EQ(sqlite3_column_int(statement, 0), NewestSqliteSchema());
  EXPECT_EQ(sqlite3_column_int(statement, 1), NewestSqliteSchema());
  sqlite3_finalize(statement);
  sqlite3_close(handle);
}

// Each statement of the hot path must find its rows by an index.
TEST(SqliteStore, LookUpsDoNotScanTables) {
  const std::string folder = MakeTestFolder();
  ASSERT_OK(SqliteStore::Open({.directory = folder}));
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(absl::StrCat(folder, "/", kSqliteFileName).c_str(), &handle), SQLITE_OK);
  const std::pair<const char*, const char*> cases[] = {
      {"SELECT bytes FROM plans WHERE cluster = ?1 AND plan_key = ?2 AND job_id = ?3 "
       "AND expire_time > ?4 ORDER BY sequence DESC LIMIT 1",
       "plans_by_key"},
      {"SELECT bytes FROM plans WHERE cluster = ?1 AND owner = ?2 AND request_id = ?3 "
       "AND request_id <> ''",
       "plans_by_request"},
      {"SELECT bytes FROM plans WHERE cluster = ?1 AND job_id = ?2 AND job_id <> '' "
       "ORDER BY sequence DESC LIMIT 1",
       "plans_by_job"},
      {"SELECT EXISTS (SELECT 1 FROM plans CROSS JOIN executions ON executions.plan = plans.name "
       "AND executions.state = 1 WHERE plans.cluster = ?1 AND plans.job_id = ?2 "
       "AND plans.job_id <> '') FROM jobs WHERE cluster = ?1 AND job_id = ?2",
       "plans_by_job"},
      {"SELECT sequence FROM plans WHERE cluster = ?1 AND owner = ?3 AND owner <> '' "
       "AND sequence < ?2 ORDER BY sequence DESC LIMIT ?5",
       "COVERING INDEX plans_by_owner"},
      // The numbers come from lists that are sorted, and the rows in their order.
      {"SELECT bytes FROM plans WHERE sequence IN (SELECT 7 UNION ALL SELECT 5) "
       "ORDER BY sequence DESC",
       "SEARCH plans USING INTEGER PRIMARY KEY"},
      {"SELECT bytes FROM profiles WHERE cluster = ?1 AND sequence < ?2 ORDER BY sequence DESC",
       "profiles_by_cluster"},
      {"SELECT sum(plan_count), sum(byte_count) FROM stored_usage WHERE ?1 = '' AND cluster = ?2",
       "SEARCH stored_usage USING PRIMARY KEY"},
      {"SELECT sum(plan_count), sum(byte_count) FROM stored_usage "
       "WHERE owner = ?1 AND (?2 = '' OR cluster = ?2)",
       "COVERING INDEX stored_usage_by_owner (owner=?)"},
      {"SELECT sum(byte_count) FROM execution_usage WHERE ?1 = '' AND cluster = ?2",
       "SEARCH execution_usage USING PRIMARY KEY"},
      {"SELECT sum(byte_count) FROM execution_usage WHERE owner = ?1 AND (?2 = '' OR cluster = ?2)",
       "COVERING INDEX execution_usage_by_owner (owner=?)"},
      {"SELECT bytes FROM executions WHERE plan = ?1 AND sequence < ?2 ORDER BY sequence DESC",
       "executions_by_plan"},
      {"SELECT c.name FROM active_calibrations AS a LEFT JOIN calibrations AS c "
       "ON c.name = a.calibration WHERE a.cluster = ?1",
       "SEARCH a USING PRIMARY KEY"},
      {"SELECT bytes FROM calibrations WHERE cluster = ?1 AND sequence < ?2 "
       "ORDER BY sequence DESC",
       "calibrations_by_cluster"}};
  for (const auto& [query, index] : cases) {
    sqlite3_stmt* statement = nullptr;
    const std::string explain = absl::StrCat("EXPLAIN QUERY PLAN ", query);
    ASSERT_EQ(sqlite3_prepare_v2(handle, explain.c_str(), -1, &statement, nullptr), SQLITE_OK);
    std::string plan;
    while (sqlite3_step(statement) == SQLITE_ROW) {
      absl::StrAppend(&plan, reinterpret_cast<const char*>(sqlite3_column_text(statement, 3)),
                      "\n");
    }
    EXPECT_THAT(plan, testing::HasSubstr(index));
    EXPECT_THAT(plan, testing::Not(testing::HasSubstr("TEMP B-TREE"))) << query;
    sqlite3_finalize(statement);
  }
  sqlite3_close(handle);
}

}  // namespace
}  // namespace parplan
