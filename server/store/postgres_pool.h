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

namespace parplan {

// What went wrong in the database, read from an exception of libpqxx.
struct PostgresFailure {
  // One of the errors of store.h, with what a person should do.
  absl::Status status;
  // Another transaction was in the way: the same one may do when begun again.
  bool is_conflict = false;
  // The connection is of no use any more.
  bool is_broken = false;
};
PostgresFailure ReadPostgresFailure(const std::exception& error);

// A session as this project needs it: UTF-8, commits that wait for the disk, limits on how
// long a statement may take. One thread at a time.
class PostgresSession {
 public:
  // Connects once. What it throws is for `ReadPostgresFailure`.
  explicit PostgresSession(const std::string& uri);

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
  };

  // What is done in a transaction. It may throw what libpqxx throws, and it may run again
  // from its beginning: it changes nothing but the database and what it assigns anew.
  using Body = std::function<absl::Status(pqxx::transaction_base&)>;

  // Connects once, to see whether it can. The errors of store.h.
  static absl::StatusOr<std::unique_ptr<PostgresPool>> Open(const Options& options);

  // Each statement sees a moment of its own. Begun again when the connection breaks.
  absl::Status Read(const Body& body);

  // Commits when `body` returns OK, else leaves no trace. Begun again when another
  // transaction was in the way or the connection broke before the commit. UNAVAILABLE when
  // it broke during the commit: then nobody knows.
  absl::Status Write(const Body& body);

 private:
  class Loan;

  explicit PostgresPool(const Options& options) : options_(options) {}
  absl::StatusOr<std::unique_ptr<PostgresSession>> Connect();
  absl::Status Run(const std::function<absl::Status(PostgresSession&, bool& in_doubt)>& once);

  const Options options_;
  std::mutex mutex_;
  std::condition_variable returned_;
  int connection_count_ = 0;                            // Guarded by mutex_; lent ones as well.
  std::vector<std::unique_ptr<PostgresSession>> idle_;  // Guarded by mutex_.
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_POSTGRES_POOL_H_
