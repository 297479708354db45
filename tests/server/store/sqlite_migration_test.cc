// Opens databases of older servers: the first ones from their `.dump`, later ones as the migrations
// up to them make them.

#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/store/sqlite_schema.h"
#include "server/store/sqlite_store.h"
#include "tests/server/store/migration_conformance.h"

namespace parplan {
namespace {

// A profile (and one that was deleted), a plan, its execution and two windows, each
// with 20 sample bytes.
constexpr char kSchema1[] = R"sql(
BEGIN TRANSACTION;
CREATE TABLE schema_version (version INTEGER PRIMARY KEY, description TEXT NOT NULL, apply_time INTEGER NOT NULL) STRICT;
INSERT INTO schema_version VALUES(1,'profiles, plans, executions and their windows',1795262050979085919);
CREATE TABLE profiles (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  cluster TEXT NOT NULL,
  node TEXT NOT NULL,
  profile_id TEXT NOT NULL,
  device_kind TEXT NOT NULL,
  request_id TEXT NOT NULL,
  content_digest TEXT NOT NULL,
  create_time INTEGER NOT NULL,
  bytes BLOB NOT NULL
) STRICT;
INSERT INTO profiles VALUES(1,'clusters/c/nodes/n/profiles/p','c','n','p','a100-40gb','request-p','digest-p',1767225601000000007,X'0fb06c3de11a1dc708f01e3578f3d9f6568b3911');
CREATE TABLE profile_revisions (
  cluster TEXT PRIMARY KEY,
  revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO profile_revisions VALUES('c',3);
CREATE TABLE plans (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  cluster TEXT NOT NULL,
  plan_id TEXT NOT NULL,
  plan_key TEXT NOT NULL,
  request_id TEXT NOT NULL,
  job_id TEXT NOT NULL,
  topology_digest TEXT NOT NULL,
  profile_digest TEXT NOT NULL,
  create_time INTEGER NOT NULL,
  expire_time INTEGER NOT NULL,
  bytes BLOB NOT NULL
) STRICT;
INSERT INTO plans VALUES(1,'clusters/c/plans/plan','c','plan','key-plan','request-plan','job','topology','profiles',1767225600000000000,1767229200000000000,X'd94750f6d79f6e297f6d772e00a54a09f6fadfb6');
CREATE TABLE executions (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  plan TEXT NOT NULL REFERENCES plans (name),
  execution_id TEXT NOT NULL,
  request_id TEXT NOT NULL,
  state INTEGER NOT NULL,
  start_time INTEGER NOT NULL,
  end_time INTEGER NOT NULL,
  window_count INTEGER NOT NULL,
  failure_reason TEXT NOT NULL,
  bytes BLOB NOT NULL
) STRICT;
INSERT INTO executions VALUES(1,'clusters/c/plans/plan/executions/e','clusters/c/plans/plan','e','request-e',1,1767225610000000000,9223372036854775807,2,'',X'5fb08df7f2b0fb87762ef48b7e02497ebe7ecf0c');
CREATE TABLE windows (
  execution INTEGER NOT NULL REFERENCES executions (sequence),
  rank INTEGER NOT NULL,
  first_step INTEGER NOT NULL,
  step_count INTEGER NOT NULL,
  median_step_nanoseconds INTEGER NOT NULL,
  peak_memory_bytes INTEGER NOT NULL,
  bytes BLOB NOT NULL,
  PRIMARY KEY (execution, rank, first_step)
) STRICT;
INSERT INTO windows VALUES(1,0,0,10,1500000,32212254720,X'966f1d164f8943d748ede1e72666351600e28c8f');
INSERT INTO windows VALUES(1,1,0,10,1501000,32212254720,X'9ffcd1b3c2be5eeea2ddb9000337864e05c47eff');
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('profiles',2);
INSERT INTO sqlite_sequence VALUES('plans',1);
INSERT INTO sqlite_sequence VALUES('executions',1);
CREATE UNIQUE INDEX profiles_by_request ON profiles (cluster, node, request_id)
  WHERE request_id <> '';
CREATE INDEX profiles_by_cluster ON profiles (cluster, sequence);
CREATE INDEX profiles_by_node ON profiles (cluster, node, sequence);
CREATE UNIQUE INDEX plans_by_request ON plans (cluster, request_id) WHERE request_id <> '';
CREATE INDEX plans_by_key ON plans (cluster, plan_key, job_id, sequence);
CREATE INDEX plans_by_cluster ON plans (cluster, sequence);
CREATE INDEX plans_by_expiry ON plans (expire_time);
CREATE UNIQUE INDEX executions_by_request ON executions (plan, request_id)
  WHERE request_id <> '';
CREATE INDEX executions_by_plan ON executions (plan, sequence);
COMMIT;
)sql";

constexpr int64_t kSampleSize = 20;

// Additions of schema 2.
constexpr char kSchema2[] = R"sql(
BEGIN TRANSACTION;
INSERT INTO schema_version VALUES(2,'calibrations and which of them are active',1795262050979085920);
CREATE TABLE calibrations (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  cluster TEXT NOT NULL,
  calibration_id TEXT NOT NULL,
  request_id TEXT NOT NULL,
  content_digest TEXT NOT NULL,
  create_time INTEGER NOT NULL,
  bytes BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX calibrations_by_request ON calibrations (cluster, request_id)
  WHERE request_id <> '';
CREATE INDEX calibrations_by_cluster ON calibrations (cluster, sequence);
CREATE TABLE active_calibrations (
  cluster TEXT PRIMARY KEY,
  calibration TEXT REFERENCES calibrations (name),
  activate_time INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
COMMIT;
)sql";

void Write(const std::string& folder, const char* statements) {
  sqlite3* handle = nullptr;
  EXPECT_EQ(sqlite3_open(absl::StrCat(folder, "/", kSqliteFileName).c_str(), &handle), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(handle, statements, nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(handle);
  sqlite3_close(handle);
}

// A data directory with a database of schema 1.
std::string MakeFolderOfSchema1() {
  const std::string folder = MakeTestFolder();
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
  Write(folder, kSchema1);
  return folder;
}

// The records of `kSchema1`, all of them and as they were.
void ExpectRecordsOfSchema1(Store& store) {
  const ProfileRecord profile = SampleProfile("c", "n", "p", kSampleSize);
  ASSERT_OK_AND_ASSIGN(const ProfileSet set, store.SnapshotProfiles("c"));
  EXPECT_THAT(set.profiles, testing::ElementsAre(profile));
  EXPECT_EQ(set.revision, 3);
  const PlanRecord plan = SamplePlan("c", "plan", kSampleSize);
  EXPECT_THAT(store.GetPlan(plan.name), IsOkAndHolds(plan));
  ExecutionRecord execution = SampleExecution(plan.name, "e");
  execution.bytes.resize(kSampleSize);
  execution.window_count = 2;
  ASSERT_OK_AND_ASSIGN(const ExecutionRecord stored, store.GetExecution(execution.name));
  // Its last report is unknown: silence counts from the opening of the store.
  EXPECT_GT(stored.report_time, absl::Now() - absl::Hours(24));
  execution.report_time = stored.report_time;
  EXPECT_EQ(stored, execution);
  ASSERT_OK_AND_ASSIGN(const auto windows, store.ListWindows(execution.name));
  EXPECT_THAT(windows, testing::ElementsAre(SampleWindow(0, 0, kSampleSize),
                                            SampleWindow(1, 0, kSampleSize)));
}

// Failed by its job, and by a server that heard nothing of it.
constexpr char kFailedOfSchema1[] = R"sql(
INSERT INTO executions VALUES(2,'clusters/c/plans/plan/executions/f','clusters/c/plans/plan','f','request-f',3,1767225610000000000,1767225620000000000,0,'out of memory',X'5f');
INSERT INTO executions VALUES(3,'clusters/c/plans/plan/executions/a','clusters/c/plans/plan','a','request-a',3,1767225610000000000,1767225620000000000,0,'abandoned: nobody reported for 6h',X'5f');
)sql";

int SchemaOf(const std::string& folder) {
  sqlite3* handle = nullptr;
  EXPECT_EQ(sqlite3_open(absl::StrCat(folder, "/", kSqliteFileName).c_str(), &handle), SQLITE_OK);
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(handle, "SELECT max(version) FROM schema_version", -1, &statement, nullptr);
  EXPECT_EQ(sqlite3_step(statement), SQLITE_ROW);
  const int version = sqlite3_column_int(statement, 0);
  sqlite3_finalize(statement);
  sqlite3_close(handle);
  return version;
}

TEST(SqliteMigration, AStoreOfSchema1KeepsItsRecordsAndTakesCalibrations) {
  const std::string folder = MakeFolderOfSchema1();
  {
    ASSERT_OK_AND_ASSIGN(const auto store, SqliteStore::Open({.directory = folder}));
    ExpectRecordsOfSchema1(*store);
    EXPECT_THAT(store->ActiveCalibration("c"), IsOkAndHolds(ActiveCalibrationRecord()));
    const CalibrationRecord calibration = SampleCalibration("c", "a");
    EXPECT_THAT(store->PutCalibration(calibration), IsOkAndHolds(calibration));
    EXPECT_OK(store->ActivateCalibration("c", calibration.name, SampleTime(5)));
  }
  EXPECT_EQ(SchemaOf(folder), NewestSqliteSchema());
  ASSERT_OK_AND_ASSIGN(const auto store, SqliteStore::Open({.directory = folder}));
  ExpectRecordsOfSchema1(*store);
  EXPECT_EQ(store->ActiveCalibration("c")->name, SampleCalibration("c", "a").name);
}

TEST(SqliteMigration, WhatWasAbandonedBeforeMayReportAsWell) {
  const std::string folder = MakeFolderOfSchema1();
  Write(folder, kFailedOfSchema1);
  ASSERT_OK_AND_ASSIGN(const auto store, SqliteStore::Open({.directory = folder}));
  const std::string plan = "clusters/c/plans/plan";
  EXPECT_EQ(ReasonOf(store->AppendWindows(SampleExecution(plan, "f").name, {SampleWindow(0, 0)},
                                          {100}, SampleTime(30))),
            Reason::kExecutionState);
  const std::string abandoned = SampleExecution(plan, "a").name;
  EXPECT_OK(store->AppendWindows(abandoned, {SampleWindow(0, 0)}, {100}, SampleTime(30)));
  EXPECT_EQ(store->GetExecution(abandoned)->state, ExecutionState::kRunning);
}

TEST(SqliteMigration, AStoreOfSchema2KeepsItsWindowsAndTakesTheirItems) {
  const std::string folder = MakeFolderOfSchema1();
  Write(folder, kSchema2);
  const std::string execution = SampleExecution("clusters/c/plans/plan", "e").name;
  WindowRecord window = SampleWindow(0, 10, kSampleSize);
  window.items = "items";
  {
    ASSERT_OK_AND_ASSIGN(const auto store, SqliteStore::Open({.directory = folder}));
    ExpectRecordsOfSchema1(*store);
    // The rule that one rank and first step is stored once has moved along.
    ASSERT_OK_AND_ASSIGN(const AppendResult result,
                         store->AppendWindows(execution, {window, SampleWindow(0, 0, kSampleSize)},
                                              {100}, SampleTime(30)));
    EXPECT_EQ(result.stored_count, 1);
    EXPECT_EQ(result.duplicate_count, 1);
  }
  EXPECT_EQ(SchemaOf(folder), NewestSqliteSchema());
  ASSERT_OK_AND_ASSIGN(const auto store, SqliteStore::Open({.directory = folder}));
  EXPECT_THAT(store->ListWindows(execution, Store::WindowParts::kAll),
              IsOkAndHolds(testing::ElementsAre(SampleWindow(0, 0, kSampleSize), window,
                                                SampleWindow(1, 0, kSampleSize))));
}

// A data directory with a database of an older schema and these rows. Released migrations are
// never edited, so those of this release make what the older release made.
std::string MakeFolderOfSchema(int schema, const std::string& rows) {
  const std::string folder = MakeTestFolder();
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
  const std::string file = absl::StrCat(folder, "/", kSqliteFileName);
  std::ofstream(file).close();
  {
    const auto connection = SqliteConnection::Open(file, SqliteConnection::Role::kWriter, {});
    EXPECT_OK(connection.status());
    EXPECT_OK(MigrateSqlite(**connection, SampleTime(0), schema));
  }
  EXPECT_EQ(SchemaOf(folder), schema);
  Write(folder, rows.c_str());
  return folder;
}

class OlderSqlite : public OlderDatabase {
 public:
  void MakeBefore(SchemaChange change, const std::string& statements) override {
    folder_ = MakeFolderOfSchema(SchemaBefore(change), statements);
  }
  std::string BytesLiteral(const std::string& bytes) const override {
    return absl::StrCat("X'", absl::BytesToHexString(bytes), "'");
  }
  absl::StatusOr<std::unique_ptr<Store>> Open() override {
    return SqliteStore::Open({.directory = folder_});
  }

 private:
  static int SchemaBefore(SchemaChange change) {
    switch (change) {
      case SchemaChange::kPlanOwners:
        return 6;
      case SchemaChange::kJobs:
        return 7;
      case SchemaChange::kUsage:
        return 8;
      case SchemaChange::kSpecs:
        return 10;
      case SchemaChange::kExecutionOwners:
        return 11;
    }
    return 0;
  }

  std::string folder_;
};

std::unique_ptr<OlderDatabase> MakeOlderSqlite() { return std::make_unique<OlderSqlite>(); }

INSTANTIATE_TEST_SUITE_P(Sqlite, MigrationConformance, testing::Values(&MakeOlderSqlite));

TEST(SqliteMigration, ProfilesOfSchema8AreCountedAndHaveNoOwner) {
  const std::string folder = MakeFolderOfSchema(
      8,
      "INSERT INTO profiles VALUES(1,'clusters/c/nodes/n/profiles/p','c','n','p','a100-40gb',"
      "'request-p','digest-p',1767225601000000007,X'0fb06c3de11a1dc708f01e3578f3d9f6568b3911');");
  ASSERT_OK_AND_ASSIGN(const auto store, SqliteStore::Open({.directory = folder}));
  const ProfileRecord profile = SampleProfile("c", "n", "p", kSampleSize);
  EXPECT_THAT(store->GetProfile(profile.name), IsOkAndHolds(profile));
  EXPECT_THAT(store->Usage({.cluster = "c"}), IsOkAndHolds(StoredUsage{0, kSampleSize}));
  EXPECT_THAT(store->Usage({.owner = "cn:me"}), IsOkAndHolds(StoredUsage{}));
  ASSERT_OK(store->DeleteProfile(profile.name));
  EXPECT_THAT(store->Usage({.cluster = "c"}), IsOkAndHolds(StoredUsage{}));
}

TEST(SqliteMigration, ProfilesOfSchema9AreAKindOfTheirOwn) {
  std::string rows;
  for (const char* id : {"1", "2", "3"}) {
    absl::StrAppend(&rows,
                    "INSERT INTO profiles (name, cluster, node, profile_id, device_kind, "
                    "request_id, content_digest, create_time, bytes) VALUES ('",
                    SampleProfile("c", "n", id).name, "', 'c', 'n', '", id,
                    "', 'a100-40gb', 'request-", id, "', 'digest', 7, X'5f');");
  }
  const std::string folder = MakeFolderOfSchema(9, rows);
  ASSERT_OK_AND_ASSIGN(const auto store, SqliteStore::Open({.directory = folder}));
  EXPECT_EQ(store->SnapshotProfiles("c")->profiles.size(), 3u);
  ProfileRecord newer = SampleProfile("c", "n", "4");
  newer.kind = "8 BF16 ";
  ASSERT_OK(store->PutProfile(newer, 2));
  ASSERT_OK_AND_ASSIGN(const ProfileSet set, store->SnapshotProfiles("c"));
  ASSERT_EQ(set.profiles.size(), 4u);
  EXPECT_EQ(set.profiles[0], newer);
  EXPECT_EQ(set.profiles[1].profile_id, "3");
  EXPECT_EQ(set.profiles[3].profile_id, "1");
}

// The disk fills up in the middle: the file stays of its schema, and opens once
// there is room.
TEST(SqliteMigration, AMigrationThatFindsNoRoomChangesNothing) {
  const std::string folder = MakeFolderOfSchema1();
  const int64_t page_count =
      static_cast<int64_t>(std::filesystem::file_size(folder + "/" + kSqliteFileName)) / 4096;
  // The new tables and indexes need more pages than these.
  for (int64_t room = 0; room < 4; ++room) {
    const auto store =
        SqliteStore::Open({.directory = folder, .max_page_count = page_count + room});
    EXPECT_THAT(store, StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr("full")));
    EXPECT_EQ(SchemaOf(folder), 1);
  }
  ASSERT_OK_AND_ASSIGN(const auto store, SqliteStore::Open({.directory = folder}));
  ExpectRecordsOfSchema1(*store);
  EXPECT_OK(store->PutCalibration(SampleCalibration("c", "a")));
}

}  // namespace
}  // namespace parplan
