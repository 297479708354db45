// Connections to one PostgreSQL database, lent to one transaction at a time, and
// libpqxx's exceptions as `absl::Status`.

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

// What went wrong in the database, read from an exception of libpqxx.
struct PostgresFailure {
  // One of the errors of store.h, with what a person should do.
  absl::Status status;
  // Another transaction was in the way: the same one may do when begun again.
  bool is_conflict = false;
  // The connection is of no use any more.
  bool is_broken = false;
  // It leads to a server that may only be read, perhaps since another took over.
  bool is_of_standby = false;
};
PostgresFailure ReadPostgresFailure(const std::exception& error);

// A session as this project needs it: UTF-8, commits that wait for the disk, limits on how
// long a statement may take. One thread at a time.
class PostgresSession {
 public:
  // Connects once. What it throws is for `ReadPostgresFailure`. Where `timer` is given, the
  // statements that make the session ready may take no longer than that says.
  explicit PostgresSession(const std::string& uri, StatementTimer* timer = nullptr);

  pqxx::connection& connection() { return connection_; }

 private:
  pqxx::connection connection_;
  pqxx::quiet_errorhandler quiet_;  // Notices go nowhere.
};

// `uri` with the settings this project adds where it does not say otherwise.
std::string WithPostgresDefaults(absl::string_view uri);

// Safe to use from any thread.
class PostgresPool {
 public:
  struct Options {
    // `postgres://...`, without a password.
    std::string uri;
    // Calls that may be in the database at the same time; others wait. At least 1.
    int max_connection_count = 8;
    // How long a call waits for a database that can't be reached, such as one that
    // restarts.
    absl::Duration patience = absl::Seconds(5);
    // How long a call waits for a connection while others have them all.
    absl::Duration longest_wait = absl::Seconds(30);
    // How long a transaction may take before the database counts as hung and the connection is
    // cut. Longer than a statement may take by the database's own clock.
    absl::Duration longest_transaction = absl::Seconds(30);
  };

  // What is done in a transaction. It may throw what libpqxx throws, and it may run again
  // from its beginning: it changes nothing but the database and what it assigns anew.
  using Body = std::function<absl::Status(pqxx::transaction_base&)>;

  // Connects once, to see whether it can. The errors of store.h.
  static absl::StatusOr<std::unique_ptr<PostgresPool>> Open(const Options& options);

  // Each statement sees a moment of its own. Begun again when the connection breaks.
  // UNAVAILABLE when it takes too long.
  absl::Status Read(const Body& body);

  // Commits when `body` returns OK, else leaves no trace. Begun again when another
  // transaction was in the way or the connection broke before the commit. UNAVAILABLE when
  // it takes too long, or broke during the commit: then nobody knows.
  absl::Status Write(const Body& body);

  // As `Write`, for as long as it takes.
  absl::Status WriteUnhurried(const Body& body);

 private:
  class Loan;
  using Attempt = std::function<absl::Status(PostgresSession&, bool& in_doubt)>;

  explicit PostgresPool(const Options& options)
      : options_(options), timer_(options.longest_transaction) {}
  absl::StatusOr<std::unique_ptr<PostgresSession>> Connect();
  // A transaction with `body`, which outlives it.
  static Attempt Committing(const Body& body);
  // `is_hurried`: whether an attempt may take no more than `longest_transaction`.
  absl::Status Run(const Attempt& once, bool is_hurried);

  const Options options_;
  StatementTimer timer_;
  std::mutex mutex_;
  std::condition_variable returned_;
  int connection_count_ = 0;                            // Guarded by mutex_; lent ones as well.
  std::vector<std::unique_ptr<PostgresSession>> idle_;  // Guarded by mutex_.
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_POSTGRES_POOL_H_
