#include "server/store/sqlite_store.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"
#include "server/store/sqlite_schema.h"
#include "server/store/store_errors.h"

namespace parplan {
namespace {

// Creates the file if it is absent, so that it has mode 0600 from the start and its name survives a
// power loss. SQLite gives its other files the same mode.
absl::Status MakeDatabaseFile(const std::string& directory, const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const int file_error = errno;
  const int folder = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool flushed = file >= 0 && folder >= 0 && fsync(folder) == 0;
  const int error = file < 0 ? file_error : errno;
  if (folder >= 0) close(folder);
  if (file >= 0) close(file);
  if (flushed) return absl::OkStatus();
  return MakeError(absl::StatusCode::kUnavailable, Reason::kStoreUnavailable,
                   absl::StrCat("store: cannot make `", path, "`: ", ErrnoText(error),
                                "; give the server a directory it may write to"));
}

// Returns the error with the file that it is about, for the operator who starts the server.
absl::Status AtPath(const absl::Status& error, const std::string& path) {
  absl::Status named(error.code(), absl::StrCat(error.message(), ", at ", path));
  error.ForEachPayload([&named](absl::string_view url, const absl::Cord& payload) {
    named.SetPayload(url, payload);
  });
  return named;
}

// Room below which the disk counts as full: a change needs its pages in the log and later in the
// database, and a plan has a few KB. Not measured.
constexpr uint64_t kLeastRoomBytes = uint64_t{1} << 20;

absl::Status CheckRoom(const std::string& directory) {
  struct statvfs room = {};
  // A file system that does not say is tried.
  if (statvfs(directory.c_str(), &room) != 0) return absl::OkStatus();
  const uint64_t blocks = geteuid() == 0 ? room.f_bfree : room.f_bavail;
  if (blocks * room.f_frsize >= kLeastRoomBytes) return absl::OkStatus();
  return DiskFullError(absl::StrCat("the disk is full, so nothing can be changed: less than ",
                                    kLeastRoomBytes >> 20,
                                    " MiB is free; free some space and try again"));
}

// Only another program that opens the database at the same moment can keep the store from
// opening it again. A server that cannot for so long must be started anew.
constexpr absl::Duration kReopenPatience = absl::Seconds(30);
constexpr absl::Duration kReopenPause = absl::Milliseconds(50);

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(const SqliteStoreOptions& options) {
  PARPLAN_CHECK(options.reader_count >= 1);
  std::unique_ptr<SqliteStore> store(new SqliteStore());
  PARPLAN_ASSIGN_OR_RETURN(store->lock_, DirectoryLock::Acquire(options.directory));
  const std::string path = absl::StrCat(options.directory, "/", kSqliteFileName);
  PARPLAN_RETURN_IF_ERROR(MakeDatabaseFile(options.directory, path));

  store->options_ = options;
  absl::Status opened = store->OpenConnections(/*is_exclusive=*/false);
  if (IsDiskFullError(opened)) {
    // There is no room for the index of the log, which readers need too.
    const absl::Status exclusive = store->OpenConnections(/*is_exclusive=*/true);
    if (exclusive.ok()) opened = exclusive;
  }
  if (!opened.ok()) return AtPath(opened, path);
  return store;
}

absl::Status SqliteStore::OpenConnections(bool is_exclusive) {
  const std::string path = absl::StrCat(options_.directory, "/", kSqliteFileName);
  const SqliteConnection::Options connection_options{
      .busy_timeout = options_.busy_timeout,
      .max_page_count = options_.max_page_count,
      .flush_every_commit = options_.flush_every_commit,
      .is_exclusive = is_exclusive};
  PARPLAN_ASSIGN_OR_RETURN(
      std::unique_ptr<SqliteConnection> writer,
      SqliteConnection::Open(path, SqliteConnection::Role::kWriter, connection_options));
  PARPLAN_RETURN_IF_ERROR(MigrateSqlite(*writer, absl::Now()));
  std::vector<std::unique_ptr<SqliteConnection>> readers;
  for (int i = 0; i < options_.reader_count; ++i) {
    PARPLAN_ASSIGN_OR_RETURN(
        std::unique_ptr<SqliteConnection> reader,
        SqliteConnection::Open(path, SqliteConnection::Role::kReader, connection_options));
    readers.push_back(std::move(reader));
  }
  writer_ = std::move(writer);
  is_exclusive_ = is_exclusive;
  const std::lock_guard<std::mutex> lock(readers_mutex_);
  idle_readers_ = std::move(readers);
  return absl::OkStatus();
}

absl::Status SqliteStore::TryWrite() {
  const std::lock_guard<std::mutex> lock(writer_mutex_);
  PARPLAN_RETURN_IF_ERROR(CheckRoom(options_.directory));
  {
    PARPLAN_ASSIGN_OR_RETURN(SqliteTransaction transaction,
                             SqliteTransaction::Begin(*writer_, SqliteConnection::Role::kWriter));
    // No cluster has this name; the pages of the table are written all the same.
    PARPLAN_RETURN_IF_ERROR(
        writer_->Execute("INSERT INTO profile_revisions (cluster, revision) VALUES ('', 0) "
                         "ON CONFLICT (cluster) DO NOTHING; "
                         "DELETE FROM profile_revisions WHERE cluster = '' AND revision = 0"));
    PARPLAN_RETURN_IF_ERROR(transaction.Commit());
  }
  if (is_exclusive_) OpenShared();
  return absl::OkStatus();
}

void SqliteStore::OpenShared() {
  std::vector<std::unique_ptr<SqliteConnection>> readers;
  {
    std::unique_lock<std::mutex> lock(readers_mutex_);
    is_reopening_ = true;
    reader_returned_.wait(
        lock, [this] { return static_cast<int>(idle_readers_.size()) == options_.reader_count; });
    readers.swap(idle_readers_);
  }
  readers.clear();
  writer_.reset();
  // Not the clock of the day, which may jump.
  const auto end = std::chrono::steady_clock::now() + absl::ToChronoSeconds(kReopenPatience);
  // Another program may have filled the disk, or opened the database, a moment ago.
  while (!OpenConnections(/*is_exclusive=*/false).ok() &&
         !OpenConnections(/*is_exclusive=*/true).ok()) {
    PARPLAN_CHECK(std::chrono::steady_clock::now() < end);
    absl::SleepFor(kReopenPause);
  }
  {
    const std::lock_guard<std::mutex> lock(readers_mutex_);
    is_reopening_ = false;
  }
  reader_returned_.notify_all();
}

SqliteStore::Reader::Reader(SqliteStore* store) : store_(store) {
  std::unique_lock<std::mutex> lock(store->readers_mutex_);
  store->reader_returned_.wait(
      lock, [store] { return !store->is_reopening_ && !store->idle_readers_.empty(); });
  // The connection that was used last has the warmest cache.
  connection_ = std::move(store->idle_readers_.back());
  store->idle_readers_.pop_back();
}

SqliteStore::Reader::~Reader() {
  {
    const std::lock_guard<std::mutex> lock(store_->readers_mutex_);
    store_->idle_readers_.push_back(std::move(connection_));
  }
  // Also wakes `OpenShared`, which waits for all of them.
  store_->reader_returned_.notify_all();
}

}  // namespace parplan
