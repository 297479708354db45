// The SQLite store where the world fails it: full disk, failing writes, a held
// lock, a directory it may not write to.
//
// A real small file system would need root and a loop device, which test machines
// do not lend. Two stand-ins fail where a disk does: SQLite's `max_page_count`
// refuses pages to the database (SQLITE_FULL), RLIMIT_FSIZE refuses bytes to the
// log in the kernel's write call (SQLITE_IOERR).

#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/store/sqlite_store.h"
#include "tests/server/store/store_conformance.h"

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

// Files of this process can't grow beyond `bytes` while it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    before_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit_);
    rlimit lower = limit_;
    lower.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &lower);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &limit_);
    std::signal(SIGXFSZ, before_);
  }

 private:
  rlimit limit_;
  void (*before_)(int);
};

TEST(SqliteFailures, ALogThatCannotGrowRefusesWritesAndRecovers) {
  const std::string folder = MakeTestFolder();
  int count = 0;
  {
    ASSERT_OK_AND_ASSIGN(const auto store, SqliteStore::Open({.directory = folder}));
    absl::Status refusal;
    {
      const FileSizeLimit limit(600000);
      count = FillUp(*store, refusal);
      EXPECT_GT(count, 5);
      ExpectWhole(*store, count);
    }
    EXPECT_THAT(refusal, StatusIs(absl::StatusCode::kUnavailable));
    EXPECT_EQ(ReasonOf(refusal), Reason::kStoreUnavailable);
    ExpectWhole(*store, count);
    // The disk has room again: no restart is needed.
    ASSERT_OK(store->PutProfile(SampleProfile("c", "n", absl::StrCat(count), kLargeProfileBytes)));
  }
  ASSERT_OK_AND_ASSIGN(const auto store, SqliteStore::Open({.directory = folder}));
  ExpectWhole(*store, count + 1);
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
