// A pool of connections to one PostgreSQL database, and libpqxx's exceptions as `absl::Status`.
// `PostgresStore` has one; a backup opens its own.

#ifndef PARPLAN_SERVER_STORE_POSTGRES_POOL_H_
#define PARPLAN_SERVER_STORE_POSTGRES_POOL_H_

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <pqxx/pqxx>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/store/statement_timer.h"

namespace parplan {

// A failure of the database, read from an exception of libpqxx.
struct PostgresFailure {
  // UNAVAILABLE, DATA_LOSS, INTERNAL (all STORE_UNAVAILABLE) or RESOURCE_EXHAUSTED
  // (UPLOAD_TOO_LARGE), as store.h explains them; the message says what to do.
  absl::Status status;
  // Whether another transaction conflicted; the same transaction may succeed when begun again.
  bool is_conflict = false;
  // Whether the connection must be closed.
  bool is_broken = false;
  // Whether the server is read-only, perhaps because another one took over.
  bool is_of_standby = false;
};
// Returns the failure that `error` is: of libpqxx by its kind and SQLSTATE, INTERNAL for any other
// exception.
PostgresFailure ReadPostgresFailure(const std::exception& error);

// A connection with this project's settings: UTF-8, commits that wait for the disk, and limits on
// the time of statements. Used by one thread at a time.
class PostgresSession {
 public:
  // Connects once. Throws exceptions that `ReadPostgresFailure` reads. If `timer` is given, it
  // limits the statements that set up the session.
  explicit PostgresSession(const std::string& uri, StatementTimer* timer = nullptr);

  pqxx::connection& connection() { return connection_; }

 private:
  pqxx::connection connection_;
  pqxx::quiet_errorhandler quiet_;  // Discards notices.
};

// Returns `uri` with the settings that this project adds, unless `uri` has them: limits on the time
// to connect (5 s) and to acknowledge packets (30 s), keepalives, and the program's name.
std::string WithPostgresDefaults(absl::string_view uri);

// Lends each connection to one transaction at a time. Safe to use from any thread.
class PostgresPool {
 public:
  struct Options {
    // `postgres://...`, without a password.
    std::string uri;
    // Number of calls that may use the database at the same time, at least 1; others wait.
    int max_connection_count = 8;
    // Time that a call waits for a database that cannot be reached, such as one that restarts.
    absl::Duration patience = absl::Seconds(5);
    // Time that a call waits for a connection while all are lent.
    absl::Duration longest_wait = absl::Seconds(30);
    // Time that a transaction may take before the connection is shut down, because the database
    // counts as hung. Longer than the limit of a statement in the database itself.
    absl::Duration longest_transaction = absl::Seconds(30);
  };

  // The work of a transaction. It may throw exceptions of libpqxx. It may be called again, so it
  // changes nothing but the database and variables that it assigns anew.
  using Body = std::function<absl::Status(pqxx::transaction_base&)>;

  // Connects once, to check the address. Errors are UNAVAILABLE, DATA_LOSS and INTERNAL, and
  // FAILED_PRECONDITION (STORE_UNAVAILABLE) if the database is not in UTF-8.
  static absl::StatusOr<std::unique_ptr<PostgresPool>> Open(const Options& options);

  // Runs `body` without a transaction: each statement sees its own moment. Repeats it if the
  // connection breaks, at most 20 attempts in all. Returns the error of `body`, else that of
  // `PostgresFailure`; UNAVAILABLE (STORE_UNAVAILABLE) at once if it takes too long.
  absl::Status Read(const Body& body);

  // Runs `body` in a transaction and commits if it returns OK, else rolls back. Repeats it if
  // another transaction conflicted or the connection broke before the commit, at most 20 attempts
  // in all. Returns the error of `body`, else that of `PostgresFailure`; UNAVAILABLE
  // (STORE_UNAVAILABLE) at once if it takes too long, or if the connection broke during the commit,
  // whose outcome is then unknown.
  absl::Status Write(const Body& body);

  // Runs `body` like `Write`, without a limit of time.
  absl::Status WriteUnhurried(const Body& body);

 private:
  class Loan;
  using Attempt = std::function<absl::Status(PostgresSession&, bool& in_doubt)>;

  explicit PostgresPool(const Options& options)
      : options_(options), timer_(options.longest_transaction) {}
  absl::StatusOr<std::unique_ptr<PostgresSession>> Connect();
  // Returns an attempt of a transaction with `body`, which must outlive it.
  static Attempt Committing(const Body& body);
  // Repeats `once` as needed. `is_hurried`: whether `longest_transaction` limits each attempt.
  absl::Status Run(const Attempt& once, bool is_hurried);

  const Options options_;
  StatementTimer timer_;
  std::mutex mutex_;
  std::condition_variable returned_;
  int connection_count_ = 0;                            // Idle and lent. Guarded by mutex_.
  std::vector<std::unique_ptr<PostgresSession>> idle_;  // Guarded by mutex_.
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_POSTGRES_POOL_H_
