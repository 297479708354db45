#include "server/store/sqlite_connection.h"

#include <sqlite3.h>

#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/store/store_errors.h"
#include "server/store/stored_time.h"

namespace parplan {
namespace {

// Returns advice for failures that a person can mend; empty for others.
absl::string_view Remedy(int code) {
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return "another process holds the database: end any sqlite3 shell or backup that has it "
             "open and try again";
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
      return "the database or its directory can't be written: check owner, mode and mount "
             "options, then restart the server";
    case SQLITE_IOERR:
      return "reading or writing failed: look at the kernel's log for errors of the disk, and try "
             "again";
    case SQLITE_NOMEM:
      return "out of memory: give the server more, and try again";
    case SQLITE_INTERRUPT:
    case SQLITE_PROTOCOL:
      return "the database was locked for too long: try again";
    default:
      return "";
  }
}

// Returns the errno of the last system call that failed on the log or the database, 0 if unknown.
int LastErrno(sqlite3* handle) {
  int error = 0;
  sqlite3_file* log = nullptr;
  if (sqlite3_file_control(handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) == SQLITE_OK &&
      log != nullptr && log->pMethods != nullptr) {
    log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &error);
  }
  if (error == 0) sqlite3_file_control(handle, "main", SQLITE_FCNTL_LAST_ERRNO, &error);
  return error;
}

// Returns whether there is no room for a change. SQLite says FULL for ENOSPC while it writes to the
// database or its log; it says otherwise for quotas, for limits of files, and for files that it
// makes or makes longer. The errno of a file stays until another call on that file fails, so it may
// be older than a failure to read, which no full disk causes.
bool IsDiskFull(int code, int system_error) {
  if (code == SQLITE_IOERR_READ || code == SQLITE_IOERR_SHORT_READ) return false;
  if ((code & 0xff) == SQLITE_FULL || code == SQLITE_IOERR_SHMSIZE) return true;
  if ((code & 0xff) != SQLITE_IOERR && (code & 0xff) != SQLITE_CANTOPEN) return false;
  return system_error == ENOSPC || system_error == EDQUOT || system_error == EFBIG;
}

}  // namespace

absl::Status SqliteError(int code, absl::string_view detail, int system_error) {
  const std::string what = absl::StrCat(" (", detail, ", SQLite code ", code, ")");
  if (IsDiskFull(code, system_error)) {
    return DiskFullError(absl::StrCat(
        "the disk is full, so nothing can be changed: free some space and try again", what));
  }
  const absl::string_view remedy = Remedy(code);
  if (!remedy.empty()) {
    return MakeError(absl::StatusCode::kUnavailable, Reason::kStoreUnavailable,
                     absl::StrCat("store: ", remedy, what));
  }
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
      return MakeError(absl::StatusCode::kDataLoss, Reason::kStoreUnavailable,
                       absl::StrCat("store: the database is damaged: stop the server, keep a copy "
                                    "of the data directory, and restore a backup or start with an "
                                    "empty directory",
                                    what));
    case SQLITE_TOOBIG:
      return MakeError(absl::StatusCode::kResourceExhausted, Reason::kUploadTooLarge,
                       absl::StrCat("store: the record is larger than a database row can be: send "
                                    "it in several parts",
                                    what));
    default:
      return MakeError(absl::StatusCode::kInternal, Reason::kStoreUnavailable,
                       absl::StrCat("store: a statement failed, which is a mistake of the server: "
                                    "please report it",
                                    what));
  }
}

SqliteStatement::SqliteStatement(SqliteStatement&& other) noexcept
    : connection_(other.connection_),
      statement_(std::exchange(other.statement_, nullptr)),
      bind_error_(other.bind_error_) {}

SqliteStatement::~SqliteStatement() {
  if (statement_ != nullptr) Reset();
}

void SqliteStatement::Reset() {
  // The code repeats that of `Step`.
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  bind_error_ = SQLITE_OK;
}

SqliteStatement& SqliteStatement::Bind(int position, int64_t value) {
  const int code = sqlite3_bind_int64(statement_, position, value);
  if (bind_error_ == SQLITE_OK) bind_error_ = code;
  return *this;
}

SqliteStatement& SqliteStatement::Bind(int position, absl::string_view text) {
  // A null pointer would become NULL, which is not the empty text.
  const char* data = text.empty() ? "" : text.data();
  const int code =
      sqlite3_bind_text64(statement_, position, data, text.size(), SQLITE_STATIC, SQLITE_UTF8);
  if (bind_error_ == SQLITE_OK) bind_error_ = code;
  return *this;
}

SqliteStatement& SqliteStatement::Bind(int position, absl::Time time) {
  return Bind(position, ToStoredTime(time));
}

SqliteStatement& SqliteStatement::BindBlob(int position, absl::string_view bytes) {
  const char* data = bytes.empty() ? "" : bytes.data();
  const int code = sqlite3_bind_blob64(statement_, position, data, bytes.size(), SQLITE_STATIC);
  if (bind_error_ == SQLITE_OK) bind_error_ = code;
  return *this;
}

absl::StatusOr<bool> SqliteStatement::Step() {
  if (bind_error_ != SQLITE_OK) return connection_->LastError(bind_error_);
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return connection_->LastError(code);
}

absl::Status SqliteStatement::Run() { return Step().status(); }

int64_t SqliteStatement::Integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}

std::string SqliteStatement::Text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  if (data == nullptr) return "";
  return std::string(data, sqlite3_column_bytes(statement_, column));
}

std::string SqliteStatement::Blob(int column) const { return std::string(BlobView(column)); }

absl::string_view SqliteStatement::BlobView(int column) const {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  if (data == nullptr) return "";
  return absl::string_view(data, sqlite3_column_bytes(statement_, column));
}

absl::Time SqliteStatement::Time(int column) const { return FromStoredTime(Integer(column)); }

absl::StatusOr<std::unique_ptr<SqliteConnection>> SqliteConnection::Open(const std::string& path,
                                                                         Role role,
                                                                         const Options& options) {
  sqlite3* handle = nullptr;
  // Readers open the file for writing too and are then forbidden to write: a read-only
  // connection fails if it is the first to open a WAL database.
  const int code =
      sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                      options.is_exclusive ? "unix-excl" : nullptr);
  if (handle == nullptr) return SqliteError(code, sqlite3_errstr(code));
  std::unique_ptr<SqliteConnection> connection(new SqliteConnection(handle));
  if (code != SQLITE_OK) return connection->LastError(code);
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, static_cast<int>(absl::ToInt64Milliseconds(options.busy_timeout)));
  // synchronous=FULL flushes the log at every commit. NORMAL would flush at checkpoints only:
  // acknowledged changes would survive a killed process, whose writes the kernel has, but not a
  // power loss. The cost is one flush per commit; benchmarks/store_benchmark measures both.
  PARPLAN_RETURN_IF_ERROR(connection->Execute(
      absl::StrCat("PRAGMA foreign_keys=ON; PRAGMA trusted_schema=OFF; PRAGMA synchronous=",
                   options.flush_every_commit ? "FULL" : "NORMAL", ";")));
  if (role == Role::kReader) {
    PARPLAN_RETURN_IF_ERROR(connection->Execute("PRAGMA query_only=ON;"));
    return connection;
  }
  // Truncates the log to 64 MB after a burst of writes.
  PARPLAN_RETURN_IF_ERROR(
      connection->Execute("PRAGMA journal_mode=WAL; PRAGMA journal_size_limit=67108864;"));
  if (options.max_page_count > 0) {
    PARPLAN_RETURN_IF_ERROR(
        connection->Execute(absl::StrCat("PRAGMA max_page_count=", options.max_page_count, ";")));
  }
  return connection;
}

SqliteConnection::~SqliteConnection() {
  for (const auto& [text, statement] : statements_) sqlite3_finalize(statement);
  PARPLAN_CHECK(sqlite3_close(handle_) == SQLITE_OK);
}

absl::Status SqliteConnection::LastError(int code) const {
  // Read first: the question about the files is a call of its own.
  const std::string detail = sqlite3_errmsg(handle_);
  // For most failed writes to the log `sqlite3_system_errno` has the errno of a later call.
  const int system_error = sqlite3_system_errno(handle_);
  const int of_file = (code & 0xff) == SQLITE_IOERR ? LastErrno(handle_) : 0;
  return SqliteError(code, detail, of_file != 0 ? of_file : system_error);
}

absl::Status SqliteConnection::Execute(const std::string& statements) {
  const int code = sqlite3_exec(handle_, statements.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : LastError(code);
}

absl::StatusOr<SqliteStatement> SqliteConnection::Prepare(absl::string_view statement) {
  sqlite3_stmt*& prepared = statements_[std::string(statement)];
  if (prepared == nullptr) {
    const int code =
        sqlite3_prepare_v3(handle_, statement.data(), static_cast<int>(statement.size()),
                           SQLITE_PREPARE_PERSISTENT, &prepared, nullptr);
    if (code != SQLITE_OK) return LastError(code);
  }
  PARPLAN_CHECK(sqlite3_stmt_busy(prepared) == 0);
  return SqliteStatement(this, prepared);
}

int64_t SqliteConnection::ChangeCount() const { return sqlite3_changes64(handle_); }

absl::StatusOr<SqliteTransaction> SqliteTransaction::Begin(SqliteConnection& connection,
                                                           SqliteConnection::Role role) {
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement begin,
      connection.Prepare(role == SqliteConnection::Role::kWriter ? "BEGIN IMMEDIATE" : "BEGIN"));
  PARPLAN_RETURN_IF_ERROR(begin.Run());
  return SqliteTransaction(&connection);
}

SqliteTransaction::SqliteTransaction(SqliteTransaction&& other) noexcept
    : connection_(std::exchange(other.connection_, nullptr)) {}

SqliteTransaction::~SqliteTransaction() {
  if (connection_ != nullptr) Rollback();
}

absl::Status SqliteTransaction::Commit() {
  PARPLAN_ASSIGN_OR_RETURN(SqliteStatement commit, connection_->Prepare("COMMIT"));
  PARPLAN_RETURN_IF_ERROR(commit.Run());
  connection_ = nullptr;
  return absl::OkStatus();
}

void SqliteTransaction::Rollback() {
  // A full disk and other failures have rolled back already. A rollback that fails leaves nothing
  // behind either, since the log has no commit.
  if (sqlite3_get_autocommit(connection_->handle_) == 0) {
    connection_->Execute("ROLLBACK").IgnoreError();
  }
}

}  // namespace parplan
