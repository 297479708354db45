// A thin layer over SQLite's C interface that owns its objects: connections, cached statements,
// transactions, and result codes as `absl::Status`. `SqliteStore` and server/backup use it.

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

// Converts a result code of SQLite (extended or not) to UNAVAILABLE, DATA_LOSS, INTERNAL (all
// STORE_UNAVAILABLE) or RESOURCE_EXHAUSTED (UPLOAD_TOO_LARGE), as store.h explains them. `detail`
// is SQLite's own message, `system_error` the errno behind it, 0 if unknown. The message names no
// file, because callers of a server read it.
absl::Status SqliteError(int code, absl::string_view detail, int system_error = 0);

// A prepared statement on loan from its connection's cache. Positions of parameters start at 1,
// columns at 0. Texts and bytes that are bound must live until it is reset or destroyed. The next
// `Step` returns the error of a `Bind`. REQUIRES, unchecked: destroyed before its connection.
class SqliteStatement {
 public:
  SqliteStatement(SqliteStatement&& other) noexcept;
  SqliteStatement& operator=(SqliteStatement&&) = delete;
  ~SqliteStatement();

  // Give a parameter its value, and return the statement itself, so that calls can be chained.
  // `BindBlob` binds bytes, and a time is bound as `ToStoredTime` (stored_time.h) gives it.
  SqliteStatement& Bind(int position, int64_t value);
  SqliteStatement& Bind(int position, absl::string_view text);
  SqliteStatement& Bind(int position, absl::Time time);
  SqliteStatement& BindBlob(int position, absl::string_view bytes);

  // Moves to the next row. Returns whether there is one.
  absl::StatusOr<bool> Step();
  // Runs a statement that returns no rows.
  absl::Status Run();
  // Makes the statement ready to be bound and run again.
  void Reset();

  // Return a value of the current row. REQUIRES: `Step` returned true, and the column is of that
  // type or null, which is 0 or empty; not checked.
  int64_t Integer(int column) const;
  std::string Text(int column) const;
  std::string Blob(int column) const;
  // The bytes of `Blob`, valid until the next call of a method.
  absl::string_view BlobView(int column) const;
  absl::Time Time(int column) const;

 private:
  friend class SqliteConnection;
  SqliteStatement(class SqliteConnection* connection, sqlite3_stmt* statement)
      : connection_(connection), statement_(statement) {}

  SqliteConnection* connection_;
  sqlite3_stmt* statement_;
  int bind_error_ = 0;
};

// A connection to one file. Used by one thread at a time.
class SqliteConnection {
 public:
  // Whether a connection or a transaction may change the database.
  enum class Role { kWriter, kReader };
  // How a connection behaves.
  struct Options {
    // Time that a statement waits for another process that has locked the database.
    absl::Duration busy_timeout = absl::Seconds(5);
    // Size at which the disk counts as full, in pages of 4096 bytes, 0 for no limit; and whether a
    // commit waits for the disk. Both are those of `SqliteStoreOptions`.
    int64_t max_page_count = 0;
    bool flush_every_commit = true;
    // Keeps the index of the log in the memory of this process instead of a file, which needs no
    // room on the disk, and every other process away from the database. All connections of the
    // process must be opened alike.
    bool is_exclusive = false;
  };

  // Opens an existing file; a `kWriter` puts it into WAL mode, a `kReader` cannot change it.
  // UNAVAILABLE if there is none. Errors of this class, of its statements and its transactions are
  // those of `SqliteError`.
  static absl::StatusOr<std::unique_ptr<SqliteConnection>> Open(const std::string& path, Role role,
                                                                const Options& options);
  ~SqliteConnection();
  SqliteConnection(const SqliteConnection&) = delete;
  SqliteConnection& operator=(const SqliteConnection&) = delete;

  // Runs statements without caching them, and ignores rows that they return.
  absl::Status Execute(const std::string& statements);

  // Lends a statement, which is prepared once per connection and text and kept; so texts must be
  // few, and values are bound. REQUIRES: no other user has a statement of this text; one that is in
  // the middle of its rows ends the program.
  absl::StatusOr<SqliteStatement> Prepare(absl::string_view statement);

  // Returns the number of rows that the last INSERT, UPDATE or DELETE changed.
  int64_t ChangeCount() const;

 private:
  friend class SqliteStatement;
  friend class SqliteTransaction;
  explicit SqliteConnection(sqlite3* handle) : handle_(handle) {}
  absl::Status LastError(int code) const;

  sqlite3* const handle_;
  std::map<std::string, sqlite3_stmt*> statements_;
};

// A transaction, rolled back on destruction unless committed. REQUIRES, unchecked: destroyed before
// its connection, which has at most one at a time.
class SqliteTransaction {
 public:
  // Begins a transaction. `kWriter` takes the write lock at once, so that nothing that is read can
  // change before the commit. `kReader` sees one moment of the database.
  static absl::StatusOr<SqliteTransaction> Begin(SqliteConnection& connection,
                                                 SqliteConnection::Role role);
  SqliteTransaction(SqliteTransaction&& other) noexcept;
  SqliteTransaction& operator=(SqliteTransaction&&) = delete;
  ~SqliteTransaction();

  // Commits. After an error the transaction is rolled back, at the latest when it is destroyed.
  absl::Status Commit();

 private:
  explicit SqliteTransaction(SqliteConnection* connection) : connection_(connection) {}
  void Rollback();

  SqliteConnection* connection_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_SQLITE_CONNECTION_H_
