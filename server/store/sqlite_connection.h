// A thin, owning layer over SQLite's C interface: connections, cached statements,
// transactions, and its result codes as `absl::Status`.

#ifndef PARPLAN_SERVER_STORE_SQLITE_CONNECTION_H_
#define PARPLAN_SERVER_STORE_SQLITE_CONNECTION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

struct sqlite3;
struct sqlite3_stmt;

namespace parplan {

// A result code of SQLite (extended or not) as one of the errors of store.h.
// `detail` is SQLite's own message, `path` the database file.
absl::Status SqliteError(int code, absl::string_view detail, absl::string_view path);

// A prepared statement on loan from its connection's cache. Positions of
// parameters count from 1, of columns from 0. What is bound by view must outlive
// the statement. An error of a `Bind` is given by the next `Step`.
class SqliteStatement {
 public:
  SqliteStatement(SqliteStatement&& other) noexcept;
  SqliteStatement& operator=(SqliteStatement&&) = delete;
  ~SqliteStatement();

  SqliteStatement& Bind(int position, int64_t value);
  SqliteStatement& Bind(int position, absl::string_view text);
  SqliteStatement& Bind(int position, absl::Time time);
  SqliteStatement& BindBlob(int position, absl::string_view bytes);

  // Whether there is a (next) row.
  absl::StatusOr<bool> Step();
  // Runs a statement that gives no rows.
  absl::Status Run();
  // Makes it ready to be bound and run again.
  void Reset();

  // Of the current row.
  int64_t Integer(int column) const;
  std::string Text(int column) const;
  std::string Blob(int column) const;
  absl::Time Time(int column) const;

 private:
  friend class SqliteConnection;
  SqliteStatement(class SqliteConnection* connection, sqlite3_stmt* statement)
      : connection_(connection), statement_(statement) {}

  SqliteConnection* connection_;
  sqlite3_stmt* statement_;
  int bind_error_ = 0;
};

// One thread at a time.
class SqliteConnection {
 public:
  enum class Role { kWriter, kReader };
  struct Options {
    absl::Duration busy_timeout = absl::Seconds(5);
    // See `SqliteStoreOptions`.
    int64_t max_page_count = 0;
    bool flush_every_commit = true;
  };

  // Opens an existing file. UNAVAILABLE, DATA_LOSS as in store.h.
  static absl::StatusOr<std::unique_ptr<SqliteConnection>> Open(const std::string& path, Role role,
                                                                const Options& options);
  ~SqliteConnection();
  SqliteConnection(const SqliteConnection&) = delete;
  SqliteConnection& operator=(const SqliteConnection&) = delete;

  // Runs statements that give no rows of interest, without caching them.
  absl::Status Execute(const std::string& statements);

  // `statement` is a literal: prepared once per connection. The same text is lent
  // to one user at a time.
  absl::StatusOr<SqliteStatement> Prepare(absl::string_view statement);

  // Rows the last INSERT, UPDATE or DELETE changed.
  int64_t ChangeCount() const;

 private:
  friend class SqliteStatement;
  friend class SqliteTransaction;
  SqliteConnection(std::string path, sqlite3* handle) : path_(std::move(path)), handle_(handle) {}
  absl::Status LastError(int code) const;

  const std::string path_;
  sqlite3* const handle_;
  std::map<std::string, sqlite3_stmt*> statements_;
};

// A transaction: rolled back unless committed.
class SqliteTransaction {
 public:
  // `kWriter` takes the write lock at once, so that nothing read inside can change
  // before the commit; `kReader` sees one moment of the database.
  static absl::StatusOr<SqliteTransaction> Begin(SqliteConnection& connection,
                                                 SqliteConnection::Role role);
  SqliteTransaction(SqliteTransaction&& other) noexcept;
  SqliteTransaction& operator=(SqliteTransaction&&) = delete;
  ~SqliteTransaction();

  // On an error the transaction is rolled back.
  absl::Status Commit();

 private:
  explicit SqliteTransaction(SqliteConnection* connection) : connection_(connection) {}
  void Rollback();

  SqliteConnection* connection_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_SQLITE_CONNECTION_H_
