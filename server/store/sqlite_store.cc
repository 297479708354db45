#include "server/store/sqlite_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"
#include "server/store/sqlite_schema.h"

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

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(const SqliteStoreOptions& options) {
  PARPLAN_CHECK(options.reader_count >= 1);
  std::unique_ptr<SqliteStore> store(new SqliteStore());
  PARPLAN_ASSIGN_OR_RETURN(store->lock_, DirectoryLock::Acquire(options.directory));
  const std::string path = absl::StrCat(options.directory, "/", kSqliteFileName);
  PARPLAN_RETURN_IF_ERROR(MakeDatabaseFile(options.directory, path));

  const SqliteConnection::Options connection_options{
      .busy_timeout = options.busy_timeout,
      .max_page_count = options.max_page_count,
      .flush_every_commit = options.flush_every_commit};
  PARPLAN_ASSIGN_OR_RETURN(
      store->writer_,
      SqliteConnection::Open(path, SqliteConnection::Role::kWriter, connection_options));
  PARPLAN_RETURN_IF_ERROR(MigrateSqlite(*store->writer_, absl::Now()));
  for (int i = 0; i < options.reader_count; ++i) {
    PARPLAN_ASSIGN_OR_RETURN(
        std::unique_ptr<SqliteConnection> reader,
        SqliteConnection::Open(path, SqliteConnection::Role::kReader, connection_options));
    store->idle_readers_.push_back(std::move(reader));
  }
  return store;
}

SqliteStore::Reader::Reader(SqliteStore* store) : store_(store) {
  std::unique_lock<std::mutex> lock(store->readers_mutex_);
  store->reader_returned_.wait(lock, [store] { return !store->idle_readers_.empty(); });
  // The connection that was used last has the warmest cache.
  connection_ = std::move(store->idle_readers_.back());
  store->idle_readers_.pop_back();
}

SqliteStore::Reader::~Reader() {
  {
    const std::lock_guard<std::mutex> lock(store_->readers_mutex_);
    store_->idle_readers_.push_back(std::move(connection_));
  }
  store_->reader_returned_.notify_one();
}

}  // namespace parplan
