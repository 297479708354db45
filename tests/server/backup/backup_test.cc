// Backups: what goes in comes out, in either kind of store, and damage is seen.

#include "server/backup/backup.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <pqxx/pqxx>
#include <string>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/backup/sqlite_rows.h"
#include "server/backup/table_rows.h"
#include "server/store/sqlite_connection.h"
#include "server/store/sqlite_schema.h"
#include "server/store/sqlite_store.h"
#include "tests/server/store/postgres_process.h"
#include "tests/server/store/store_conformance.h"

namespace parplan {
namespace {

using testing::HasSubstr;

StoreAddress NewSqlite() {
  StoreAddress address;
  address.directory = MakeTestFolder();
  return address;
}

StoreAddress NewPostgres() {
  static int count = 0;
  const std::string schema = absl::StrCat("backup_", ++count);
  PostgresProcess::Shared().Execute(absl::StrCat("CREATE SCHEMA ", schema));
  StoreAddress address;
  address.kind = StoreAddress::Kind::kPostgres;
  address.uri = PostgresProcess::Shared().uri(absl::StrCat("options=-csearch_path%3D", schema));
  return address;
}

using NewStore = StoreAddress (*)();

// A record of every kind; texts and bytes that are easily spoilt among them.
void Fill(const StoreAddress& address) {
  ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(address));
  ASSERT_OK(store->PutProfile(SampleProfile("c", "n", "p", 3000)));
  ASSERT_OK(store->PutProfile(SampleProfile("c", "n", "gone")));
  ASSERT_OK(store->DeleteProfile(SampleProfile("c", "n", "gone").name));
  ProfileRecord strange = SampleProfile("a cluster, 'quoted' \\ \"and\" {braced}", "é", "x");
  ASSERT_OK(store->PutProfile(strange));
  ASSERT_OK(store->PutCalibration(SampleCalibration("c", "k")));
  ASSERT_OK(store->ActivateCalibration("c", SampleCalibration("c", "k").name, SampleTime(5)));
  ASSERT_OK(store->ActivateCalibration("none", "", SampleTime(6)));
  PlanRecord plan = SamplePlan("c", "plan", 100000);
  plan.answer_key = "answer";
  plan.owner = "spiffe://lab.example/slurm";
  plan.spec = std::string("a \0 spec", 8);
  ASSERT_OK(store->PutPlan(plan, JobClaim{plan.owner, 4}));
  ASSERT_OK(store->PutPlan(SamplePlan("c", "another")));
  PlanRecord of_other = SamplePlan("c", "deleted");
  of_other.job_id = "Job, \"B\" of 'é'";
  of_other.expire_time = SampleTime(1);
  ASSERT_OK(store->PutPlan(of_other, JobClaim{"", 1}));
  ASSERT_OK(store->DeleteExpiredPlans(SampleTime(2), 10).status());
  ASSERT_OK(store->CreateExecution(SampleExecution(plan.name, "e")));
  WindowRecord empty = SampleWindow(1, 0);
  empty.items = "";
  ASSERT_OK(store->AppendWindows(SampleExecution(plan.name, "e").name, {SampleWindow(0, 0), empty},
                                 {100}, SampleTime(70)));
  // One that is failed, and may still report.
  ASSERT_OK(store->CreateExecution(SampleExecution(plan.name, "abandoned")));
  ASSERT_OK(store->FailSilentExecutions(SampleTime(60), SampleTime(90), "abandoned", 10));
  // The last number of a list is unused now.
  ASSERT_OK(store->PutProfile(SampleProfile("c", "n", "last")));
  ASSERT_OK(store->DeleteProfile(SampleProfile("c", "n", "last").name));
}

std::string NewFileName() { return MakeTestFolder() + "/parplan.backup"; }

class BackupBetween : public testing::TestWithParam<std::pair<NewStore, NewStore>> {};

TEST_P(BackupBetween, WhatGoesInComesOut) {
  const StoreAddress from = GetParam().first();
  const StoreAddress to = GetParam().second();
  Fill(from);
  const std::string file = NewFileName();
  ASSERT_OK_AND_ASSIGN(const BackupSummary written, BackUpStore(from, file));
  EXPECT_THAT(
      written.row_counts,
      testing::ElementsAre(testing::Pair("profiles", 2), testing::Pair("profile_revisions", 2),
                           testing::Pair("calibrations", 1), testing::_, testing::Pair("specs", 1),
                           testing::Pair("plans", 2), testing::Pair("jobs", 2),
                           testing::Pair("executions", 2), testing::Pair("windows", 2)));
  ASSERT_OK_AND_ASSIGN(const BackupSummary restored, RestoreStore(file, to, false));
  EXPECT_EQ(restored.digest, written.digest);
  // A backup of the new store is the same again.
  ASSERT_OK_AND_ASSIGN(const BackupSummary again, BackUpStore(to, NewFileName()));
  EXPECT_EQ(again.digest, written.digest);

  ASSERT_OK_AND_ASSIGN(const auto old_store, OpenStore(from));
  ASSERT_OK_AND_ASSIGN(const auto new_store, OpenStore(to));
  const std::string execution = SampleExecution(SamplePlan("c", "plan").name, "e").name;
  EXPECT_EQ(*new_store->GetPlan(SamplePlan("c", "plan").name),
            *old_store->GetPlan(SamplePlan("c", "plan").name));
  EXPECT_EQ(new_store->SnapshotProfiles("c")->profiles, old_store->SnapshotProfiles("c")->profiles);
  EXPECT_THAT(new_store->ProfileRevision("c"), IsOkAndHolds(5));
  EXPECT_EQ(*new_store->Usage({}), *old_store->Usage({}));
  EXPECT_GT(new_store->Usage({})->execution_byte_count, 0);
  EXPECT_GT(new_store->Usage({.owner = "spiffe://lab.example/slurm"})->byte_count, 100000);
  EXPECT_EQ(*new_store->ActiveCalibration("c"), *old_store->ActiveCalibration("c"));
  EXPECT_EQ(*new_store->ListWindows(execution), *old_store->ListWindows(execution));
  EXPECT_THAT(new_store->FindJob("c", "job", SampleTime(0)),
              IsOkAndHolds(testing::Optional(JobRecord{"spiffe://lab.example/slurm", 4, true})));
  EXPECT_EQ(*new_store->GetExecution(execution), *old_store->GetExecution(execution));
  EXPECT_EQ(new_store->GetExecution(execution)->state, ExecutionState::kRunning);
  EXPECT_OK(
      new_store->AppendWindows(SampleExecution(SamplePlan("c", "plan").name, "abandoned").name,
                               {SampleWindow(0, 0)}, {100}, SampleTime(95)));
  // It goes on where the other stood: a page token of before is right after.
  for (Store* store : {old_store.get(), new_store.get()}) {
    ASSERT_OK(store->PutProfile(SampleProfile("c", "n", "new-1")));
    ASSERT_OK(store->PutProfile(SampleProfile("c", "n", "new-2")));
  }
  EXPECT_EQ(new_store->ListProfiles("c", "n", {.page_size = 1})->next_page_token,
            old_store->ListProfiles("c", "n", {.page_size = 1})->next_page_token);
}

INSTANTIATE_TEST_SUITE_P(AllKinds, BackupBetween,
                         testing::Values(std::pair<NewStore, NewStore>{&NewSqlite, &NewSqlite},
                                         std::pair<NewStore, NewStore>{&NewSqlite, &NewPostgres},
                                         std::pair<NewStore, NewStore>{&NewPostgres, &NewSqlite},
                                         std::pair<NewStore, NewStore>{&NewPostgres,
                                                                       &NewPostgres}));

TEST(Backup, AnEmptyStoreIsABackupToo) {
  for (const NewStore make : {&NewSqlite, &NewPostgres}) {
    const StoreAddress from = make();
    ASSERT_OK(OpenStore(from));
    const std::string file = NewFileName();
    ASSERT_OK(BackUpStore(from, file));
    const StoreAddress to = make();
    ASSERT_OK(RestoreStore(file, to, false));
    ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(to));
    EXPECT_OK(store->PutPlan(SamplePlan("c", "p")));
  }
}

TEST(Backup, IsForTheOwnerAloneAndOfOneMomentWhileAServerWrites) {
  for (const NewStore make : {&NewSqlite, &NewPostgres}) {
    const StoreAddress from = make();
    ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(from));
    std::atomic<int> count = 0;
    std::atomic<bool> stop = false;
    std::thread writer([&] {
      for (int i = 0; !stop && i < 100000; ++i) {
        if (store->PutProfile(SampleProfile("c", "n", absl::StrCat(i))).ok()) ++count;
      }
    });
    while (count < 10) std::this_thread::yield();
    const std::string file = NewFileName();
    const auto summary = BackUpStore(from, file);
    stop = true;
    writer.join();
    ASSERT_OK(summary);
    struct stat status;
    ASSERT_EQ(stat(file.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600);
    const StoreAddress to = NewSqlite();
    ASSERT_OK(RestoreStore(file, to, false));
    ASSERT_OK_AND_ASSIGN(const auto restored, OpenStore(to));
    ASSERT_OK_AND_ASSIGN(const ProfileSet set, restored->SnapshotProfiles("c"));
    EXPECT_GE(set.profiles.size(), 10);
    EXPECT_EQ(set.revision, static_cast<int64_t>(set.profiles.size()));
  }
}

TEST(Backup, AStoreThatIsNotEmptyIsReplacedOnlyWhereAsked) {
  for (const NewStore make : {&NewSqlite, &NewPostgres}) {
    const StoreAddress from = make();
    Fill(from);
    const std::string file = NewFileName();
    ASSERT_OK_AND_ASSIGN(const BackupSummary written, BackUpStore(from, file));
    const StoreAddress to = make();
    {
      ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(to));
      ASSERT_OK(store->PutPlan(SamplePlan("c", "in the way")));
    }
    EXPECT_THAT(RestoreStore(file, to, false),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--replace")));
    {
      ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(to));
      EXPECT_OK(store->GetPlan(SamplePlan("c", "in the way").name));
    }
    ASSERT_OK(RestoreStore(file, to, true));
    EXPECT_EQ(BackUpStore(to, NewFileName())->digest, written.digest);
  }
}

TEST(Backup, AFolderAServerUsesIsNotRestoredTo) {
  const StoreAddress from = NewSqlite();
  Fill(from);
  const std::string file = NewFileName();
  ASSERT_OK(BackUpStore(from, file));
  const StoreAddress to = NewSqlite();
  ASSERT_OK_AND_ASSIGN(const auto server, OpenStore(to));
  EXPECT_THAT(RestoreStore(file, to, true),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("another server")));
}

TEST(Backup, NoFileIsOverwritten) {
  const StoreAddress from = NewSqlite();
  Fill(from);
  const std::string file = NewFileName();
  ASSERT_OK_AND_ASSIGN(const BackupSummary written, BackUpStore(from, file));
  EXPECT_THAT(BackUpStore(from, file),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is there already")));
  EXPECT_EQ(CheckBackup(file)->digest, written.digest);
}

// The files are those of commands that still run.
TEST(Backup, FilesOfOtherCommandsStay) {
  const StoreAddress from = NewSqlite();
  Fill(from);
  const std::string file = NewFileName();
  const auto holds = [](const std::string& path) {
    return std::filesystem::exists(path) && std::filesystem::file_size(path) == 5;
  };
  const std::string staged = file + ".new";
  std::ofstream(staged) << "other";
  EXPECT_THAT(BackUpStore(from, file), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                HasSubstr(".new is there already; wait")));
  EXPECT_TRUE(holds(staged));
  std::filesystem::remove(staged);
  ASSERT_OK(BackUpStore(from, file));
  EXPECT_FALSE(std::filesystem::exists(staged));
  const std::string copy = file + ".restoring";
  std::ofstream(copy) << "other";
  EXPECT_THAT(RestoreStore(file, NewSqlite(), false),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr(".restoring is there already; wait")));
  EXPECT_TRUE(holds(copy));
}

TEST(Backup, DamageIsSeenAndRestoresNothing) {
  const StoreAddress from = NewSqlite();
  Fill(from);
  const char* const damages[] = {
      "UPDATE plans SET job_id = 'x' WHERE plan_id = 'plan'", "DELETE FROM windows WHERE rank = 1",
      "UPDATE profile_revisions SET revision = 9",
      "DELETE FROM backup_manifest WHERE name = 'plans'", "DROP TABLE backup_manifest"};
  for (const char* const damage : damages) {
    const std::string file = NewFileName();
    ASSERT_OK(BackUpStore(from, file));
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open(file.c_str(), &handle), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(handle, damage, nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(handle);
    const StoreAddress to = NewSqlite();
    const auto restored = RestoreStore(file, to, false);
    EXPECT_THAT(restored, StatusIs(absl::StatusCode::kDataLoss)) << damage;
    EXPECT_EQ(ReasonOf(restored), Reason::kStoreUnavailable);
    EXPECT_FALSE(std::filesystem::exists(absl::StrCat(to.directory, "/", kSqliteFileName)));
  }
}

TEST(Backup, ADatabaseOfAnOlderReleaseIsBroughtUpToDateFirst) {
  const StoreAddress from = NewPostgres();
  const auto never_migrated = BackUpStore(from, NewFileName());
  EXPECT_THAT(never_migrated, StatusIs(absl::StatusCode::kFailedPrecondition,
                                       HasSubstr("parplan-server store migrate")));
  EXPECT_EQ(ReasonOf(never_migrated), Reason::kStoreUnavailable);
  ASSERT_OK(OpenStore(from));
  EXPECT_OK(BackUpStore(from, NewFileName()));
  pqxx::connection connection(from.uri);
  pqxx::nontransaction(connection).exec("DELETE FROM schema_version WHERE version > 1");
  EXPECT_THAT(BackUpStore(from, NewFileName()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has schema 1,")));
}

// Writes a backup of one plan and one profile as a release with schema 7 did: without jobs, specs,
// and owners and kinds of profiles. Released migrations are never edited, so those of this release
// make its tables.
void WriteBackupOfSchema7(const std::string& file, const PlanRecord& plan,
                          const ProfileRecord& profile) {
  constexpr int kSchema = 7;
  std::ofstream(file).close();
  ASSERT_OK_AND_ASSIGN(const auto connection,
                       SqliteConnection::Open(file, SqliteConnection::Role::kWriter, {}));
  ASSERT_OK(connection->Execute("PRAGMA journal_mode=DELETE"));
  ASSERT_OK(MigrateSqlite(*connection, SampleTime(0), kSchema));
  const auto hex = [](const std::string& bytes) {
    return absl::StrCat("X'", absl::BytesToHexString(bytes), "'");
  };
  ASSERT_OK(connection->Execute(absl::StrCat(
      InsertPlanStatement(plan, /*has_owner=*/true, hex(plan.bytes)),
      "INSERT INTO profiles VALUES (1, '", profile.name, "', '", profile.cluster, "', '",
      profile.node, "', '", profile.profile_id, "', '", profile.device_kind, "', '",
      profile.request_id, "', '", profile.content_digest, "', ",
      absl::ToUnixNanos(profile.create_time), ", ", hex(profile.bytes), ");",
      "CREATE TABLE backup_manifest (name TEXT PRIMARY KEY, columns TEXT NOT NULL, "
      "row_count INTEGER NOT NULL, last_number INTEGER NOT NULL, digest TEXT NOT NULL) STRICT")));
  for (StoreTable table : StoreTables()) {
    if (table.first_schema > kSchema) continue;
    std::erase_if(table.columns, [&table](const TableColumn& column) {
      return column.name == "kind" || column.name == "coverage" || column.name == "spec_digest" ||
             column.name == "byte_count" || (column.name == "owner" && table.name != "plans");
    });
    int64_t count = 0;
    RowDigest digest;
    {
      ASSERT_OK_AND_ASSIGN(const auto rows, SqliteRowSource::Begin(*connection));
      ASSERT_OK(rows->ReadTable(table, [&](const TableRow& row) {
        ++count;
        digest.Add(row);
        return absl::OkStatus();
      }));
    }
    ASSERT_OK(connection->Execute(absl::StrCat(
        "INSERT INTO backup_manifest VALUES ('", table.name, "', '", ColumnList(table), "', ",
        count, ", ", table.is_numbered ? count : 0, ", '", digest.text(), "')")));
  }
}

TEST(Backup, AnOlderBackupIsRestoredWithWhatItLacks) {
  PlanRecord plan = SamplePlan("c", "plan", 3000);
  plan.owner = "cn:slurm";
  const ProfileRecord profile = SampleProfile("c", "n", "p", 200);
  const std::string file = NewFileName();
  ASSERT_NO_FATAL_FAILURE(WriteBackupOfSchema7(file, plan, profile));
  ASSERT_OK(CheckBackup(file));
  for (const NewStore make : {&NewSqlite, &NewPostgres}) {
    const StoreAddress to = make();
    ASSERT_OK(RestoreStore(file, to, false));
    ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(to));
    EXPECT_THAT(store->GetPlan(plan.name), IsOkAndHolds(plan));
    EXPECT_THAT(store->GetProfile(profile.name), IsOkAndHolds(profile));
    EXPECT_THAT(store->Usage({}), IsOkAndHolds(StoredUsage{1, 3200}));
    ASSERT_OK_AND_ASSIGN(const auto job, store->FindJob("c", "job", SampleTime(0)));
    ASSERT_TRUE(job.has_value());
    EXPECT_EQ(job->owner, "cn:slurm");
  }
  // One that says it has the jobs, and lacks them.
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &handle), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(handle, "INSERT INTO schema_version VALUES (8, 'jobs', 0)", nullptr,
                         nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(handle);
  EXPECT_THAT(CheckBackup(file), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("jobs")));
}

// Not damaged: the release that wrote it can use it. Once with tables that this release knows all
// of, once with a column that it does not.
TEST(Backup, OneOfANewerReleaseIsLeftToThatRelease) {
  const StoreAddress from = NewSqlite();
  Fill(from);
  const char* const changes[] = {
      "",
      "ALTER TABLE plans ADD COLUMN colour TEXT; UPDATE backup_manifest SET columns = columns "
      "|| ', colour' WHERE name = 'plans'"};
  for (const char* const change : changes) {
    const std::string file = NewFileName();
    ASSERT_OK(BackUpStore(from, file));
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open(file.c_str(), &handle), SQLITE_OK);
    const std::string newer = absl::StrCat("INSERT INTO schema_version VALUES (",
                                           NewestSqliteSchema() + 1, ", 'colours', 0); ", change);
    ASSERT_EQ(sqlite3_exec(handle, newer.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(handle);
    EXPECT_THAT(CheckBackup(file), StatusIs(absl::StatusCode::kFailedPrecondition,
                                            HasSubstr("use the release that wrote it")));
    const StoreAddress to = NewSqlite();
    EXPECT_THAT(RestoreStore(file, to, false), StatusIs(absl::StatusCode::kFailedPrecondition));
    EXPECT_FALSE(std::filesystem::exists(absl::StrCat(to.directory, "/", kSqliteFileName)));
  }
}

TEST(Backup, WhatIsNoBackupOrNotThereIsRefused) {
  const StoreAddress from = NewSqlite();
  Fill(from);
  // The store itself is none: it has no manifest.
  EXPECT_THAT(CheckBackup(absl::StrCat(from.directory, "/", kSqliteFileName)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no backup")));
  EXPECT_THAT(CheckBackup(NewFileName()), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(BackUpStore(NewSqlite(), NewFileName()), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace parplan
