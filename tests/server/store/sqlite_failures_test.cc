// The SQLite store where the world fails it: full disk, failing writes, a held
// lock, a directory it may not write to.
//
// A real small file system would need root and a loop device, which test machines
// do not lend. Two stand-ins fail where a disk does: SQLite's `max_page_count`
// refuses pages to the database (SQLITE_FULL), RLIMIT_FSIZE refuses bytes to the
// log in the kernel's write call (SQLITE_IOERR).

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/store/sqlite_store.h"
#include "server/store/store_errors.h"
#include "tests/server/store/store_conformance.h"
#include "tests/support/file_size_limit.h"

namespace parplan {
namespace {

constexpr size_t kLargeProfileBytes = 20000;

// Puts profiles 0, 1, ... until one is refused, and gives the number stored.
int FillUp(Store& store, absl::Status& refusal) {
  for (int i = 0; i < 10000; ++i) {
    const auto result =
        store.PutProfile(SampleProfile("c", "n", absl::StrCat(i), kLargeProfileBytes));
    if (!result.ok()) {
      refusal = result.status();
      return i;
    }
  }
  ADD_FAILURE() << "the disk never filled up";
  return 0;
}

// Exactly the profiles 0 to `count` - 1 are there, whole.
void ExpectWhole(Store& store, int count) {
  ASSERT_OK_AND_ASSIGN(const ProfileSet set, store.SnapshotProfiles("c"));
  EXPECT_EQ(set.revision, count);
  ASSERT_EQ(set.profiles.size(), count);
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(set.profiles[i],
              SampleProfile("c", "n", absl::StrCat(count - 1 - i), kLargeProfileBytes));
  }
}

TEST(SqliteFailures, AFullDiskRefusesWritesAndKeepsWhatIsThere) {
  const std::string folder = MakeTestFolder();
  int count = 0;
  {
    ASSERT_OK_AND_ASSIGN(const auto store,
                         SqliteStore::Open({.directory = folder, .max_page_count = 200}));
    absl::Status refusal;
    count = FillUp(*store, refusal);
    EXPECT_GT(count, 5);
    EXPECT_THAT(refusal, StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr("full")));
    EXPECT_EQ(ReasonOf(refusal), Reason::kStoreUnavailable);
    ExpectWhole(*store, count);
    // Room made by deleting is room for others.
    ASSERT_OK(store->DeleteProfile(SampleProfile("c", "n", "0").name));
    EXPECT_OK(store->PutProfile(SampleProfile("other", "n", "p", kLargeProfileBytes / 2)));
  }
  ASSERT_OK_AND_ASSIGN(const auto store, SqliteStore::Open({.directory = folder}));
  EXPECT_EQ(store->SnapshotProfiles("c")->profiles.size(), count - 1);
  EXPECT_OK(store->PutProfile(SampleProfile("c", "n", "more", 10 * kLargeProfileBytes)));
}

TEST(SqliteFailures, ALogThatCannotGrowRefusesWritesAndRecovers) {
  const std::string folder = MakeTestFolder();
  int count = 0;
  {
    ASSERT_OK_AND_ASSIGN(const auto store, SqliteStore::Open({.directory = folder}));
    absl::Status refusal;
    {
      const FileSizeLimit limit(1000000);
      count = FillUp(*store, refusal);
      EXPECT_GT(count, 5);
      ExpectWhole(*store, count);
    }
    EXPECT_THAT(refusal, StatusIs(absl::StatusCode::kUnavailable));
    EXPECT_TRUE(IsDiskFullError(refusal)) << refusal;
    EXPECT_GT(GetRetryDelay(refusal).value_or(absl::ZeroDuration()), absl::ZeroDuration());
    EXPECT_THAT(std::string(refusal.message()), testing::Not(testing::HasSubstr(folder)));
    ExpectWhole(*store, count);
    // The disk has room again: no restart is needed.
    ASSERT_OK(store->PutProfile(SampleProfile("c", "n", absl::StrCat(count), kLargeProfileBytes)));
  }
  ASSERT_OK_AND_ASSIGN(const auto store, SqliteStore::Open({.directory = folder}));
  ExpectWhole(*store, count + 1);
}

// Returns whether another process may read the database, which needs a lock on the bytes that
// SQLite's file format names for readers.
bool MayBeReadElsewhere(const std::string& folder) {
  constexpr off_t kFirstSharedByte = 0x40000002;
  constexpr off_t kSharedByteCount = 510;
  const std::string path = absl::StrCat(folder, "/", kSqliteFileName);
  const pid_t child = fork();
  if (child == 0) {
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    struct flock lock = {};
    lock.l_type = F_RDLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = kFirstSharedByte;
    lock.l_len = kSharedByteCount;
    _exit(file >= 0 && fcntl(file, F_SETLK, &lock) == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Leaves a database with one plan and one profile in `folder`: closed, or as a killed process
// leaves it, with all of it in the log.
void LeaveDatabase(const std::string& folder, bool is_killed) {
  const std::string source = is_killed ? MakeTestFolder() : folder;
  ASSERT_OK_AND_ASSIGN(const auto store, SqliteStore::Open({.directory = source}));
  ASSERT_OK(store->PutPlan(SamplePlan("c", "p1")));
  ASSERT_OK(store->PutProfile(SampleProfile("c", "n", "0", kLargeProfileBytes)));
  if (!is_killed) return;
  for (const char* const suffix : {"", "-wal"}) {
    const std::string name = absl::StrCat("/", kSqliteFileName, suffix);
    std::filesystem::copy_file(source + name, folder + name);
  }
}

TEST(SqliteFailures, AStoreOpensOnAFullDiskAndIsRead) {
  for (const bool is_killed : {false, true}) {
    const std::string folder = MakeTestFolder();
    LeaveDatabase(folder, is_killed);
    const FileSizeLimit limit(100);
    ASSERT_OK_AND_ASSIGN(const auto store, SqliteStore::Open({.directory = folder}));
    EXPECT_THAT(store->GetPlan(SamplePlan("c", "p1").name), IsOkAndHolds(SamplePlan("c", "p1")));
    ExpectWhole(*store, 1);
    for (const absl::Status& refused :
         {store->PutPlan(SamplePlan("c", "p2")).status(), store->TryWrite(),
          store->DeleteProfile(SampleProfile("c", "n", "0").name)}) {
      EXPECT_THAT(refused, StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr("full")));
      EXPECT_TRUE(IsDiskFullError(refused)) << refused;
    }
    // As many readers as ever, at the same time.
    std::vector<std::thread> readers;
    for (int i = 0; i < 8; ++i) readers.emplace_back([&store] { ExpectWhole(*store, 1); });
    for (std::thread& reader : readers) reader.join();
    EXPECT_THAT(store->CountPlans("c"), IsOkAndHolds(1));
  }
}

TEST(SqliteFailures, AStoreThatOpenedOnAFullDiskRecoversByItself) {
  const std::string folder = MakeTestFolder();
  LeaveDatabase(folder, /*is_killed=*/true);
  std::unique_ptr<SqliteStore> store;
  {
    const FileSizeLimit limit(100);
    ASSERT_OK_AND_ASSIGN(store, SqliteStore::Open({.directory = folder}));
  }
  // Its index is in memory, so nobody else may read the log.
  EXPECT_FALSE(MayBeReadElsewhere(folder));
  // Readers come and go meanwhile.
  std::atomic<bool> is_done = false;
  std::vector<std::thread> readers;
  for (int i = 0; i < 8; ++i) {
    readers.emplace_back([&] {
      while (!is_done) EXPECT_OK(store->GetPlan(SamplePlan("c", "p1").name));
    });
  }
  EXPECT_OK(store->PutPlan(SamplePlan("c", "p2")));
  EXPECT_OK(store->TryWrite());
  is_done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_TRUE(MayBeReadElsewhere(folder));
  EXPECT_OK(store->PutPlan(SamplePlan("c", "p3")));
  EXPECT_THAT(store->CountPlans("c"), IsOkAndHolds(3));
  store.reset();
  ASSERT_OK_AND_ASSIGN(store, SqliteStore::Open({.directory = folder}));
  EXPECT_THAT(store->CountPlans("c"), IsOkAndHolds(3));
  ExpectWhole(*store, 1);
}

TEST(SqliteFailures, ANewStoreIsNotMadeOnAFullDisk) {
  const std::string folder = MakeTestFolder();
  const auto store = [&folder] {
    const FileSizeLimit limit(100);
    return SqliteStore::Open({.directory = folder});
  }();
  EXPECT_TRUE(IsDiskFullError(store.status())) << store.status();
  // Who starts the server learns where.
  EXPECT_THAT(store, StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr(folder)));
}

TEST(SqliteFailures, ADatabaseHeldByAnotherProgramRefusesWritesAndServesReads) {
  const std::string folder = MakeTestFolder();
  ASSERT_OK_AND_ASSIGN(
      const auto store,
      SqliteStore::Open({.directory = folder, .busy_timeout = absl::Milliseconds(10)}));
  ASSERT_OK(store->PutPlan(SamplePlan("c", "p1")));
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(absl::StrCat(folder, "/", kSqliteFileName).c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  const auto refused = store->PutPlan(SamplePlan("c", "p2"));
  EXPECT_THAT(refused,
              StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr("another process")));
  EXPECT_EQ(ReasonOf(refused), Reason::kStoreUnavailable);
  EXPECT_FALSE(IsDiskFullError(refused.status()));
  EXPECT_OK(store->GetPlan(SamplePlan("c", "p1").name));
  sqlite3_close(other);
  EXPECT_OK(store->PutPlan(SamplePlan("c", "p2")));
  EXPECT_THAT(store->CountPlans("c"), IsOkAndHolds(2));
}

TEST(SqliteFailures, AMissingParentIsRefused) {
  const auto store = SqliteStore::Open({.directory = MakeTestFolder() + "/no/such"});
  EXPECT_THAT(store, StatusIs(absl::StatusCode::kUnavailable,
                              testing::HasSubstr("No such file or directory")));
}

TEST(SqliteFailures, AFileInPlaceOfTheDirectoryIsRefused) {
  const std::string folder = MakeTestFolder();
  ASSERT_OK(SqliteStore::Open({.directory = folder}));
  const auto store = SqliteStore::Open({.directory = absl::StrCat(folder, "/", kSqliteFileName)});
  EXPECT_THAT(store, StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr("directory")));
}

// Root may write anywhere, so a child process of the user `nobody` opens the store.
std::string OpenAsNobody(const std::string& folder) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(1);
    const absl::Status status = SqliteStore::Open({.directory = folder}).status();
    const std::string text = absl::StrCat(
        status.ToString(), " ",
        ReasonOf(status).has_value() ? std::string(ReasonName(*ReasonOf(status))) : "no reason");
    const ssize_t written = write(ends[1], text.data(), text.size());
    _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char buffer[1000];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, n);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return text;
}

TEST(SqliteFailures, AReadOnlyDirectoryIsRefused) {
  const std::string folder = MakeTestFolder();
  ASSERT_EQ(chmod(folder.c_str(), 0555), 0);
  const std::string text = OpenAsNobody(folder);
  EXPECT_THAT(text, testing::HasSubstr("UNAVAILABLE"));
  EXPECT_THAT(text, testing::HasSubstr("may write to"));
  EXPECT_THAT(text, testing::HasSubstr("STORE_UNAVAILABLE"));
  chmod(folder.c_str(), 0755);
}

TEST(SqliteFailures, AReadOnlyDatabaseIsRefused) {
  const std::string folder = MakeTestFolder();
  ASSERT_OK(SqliteStore::Open({.directory = folder}));
  ASSERT_EQ(chmod(folder.c_str(), 0777), 0);
  ASSERT_EQ(chmod((folder + "/parplan.lock").c_str(), 0666), 0);
  ASSERT_EQ(chmod((folder + "/" + kSqliteFileName).c_str(), 0444), 0);
  EXPECT_THAT(OpenAsNobody(folder), testing::HasSubstr("STORE_UNAVAILABLE"));
}

}  // namespace
}  // namespace parplan
