// A pool of connections to one PostgreSQL database. `PostgresStore` has one; a backup and
// `PostgresTurns` open sessions of their own instead (`PostgresSession`).

#ifndef PARPLAN_SERVER_STORE_POSTGRES_POOL_H_
#define PARPLAN_SERVER_STORE_POSTGRES_POOL_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <pqxx/pqxx>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/store/outage_gate.h"
#include "server/store/postgres_failure.h"
#include "server/store/statement_timer.h"

namespace parplan {

// A connection with this project's settings: UTF-8, commits that wait for the disk, and limits on
// the time of statements. Used by one thread at a time.
class PostgresSession {
 public:
  // Connects once to `uri`, which `WithPostgresDefaults` made. Throws exceptions that
  // `ReadPostgresFailure` reads. If `timer` is not null, it limits the statements that set up the
  // session.
  explicit PostgresSession(const std::string& uri, StatementTimer* timer = nullptr);

  // The connection, which lives as long as the session.
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
  // The address, and how long calls wait for the database. Defaults were not measured unless a
  // comment says so.
  struct Options {
    // `postgres://...`, without a password; `Open` adds the defaults.
    std::string uri;
    // Number of calls that may use the database at the same time, at least 1 (PARPLAN_CHECK);
    // others wait.
    int max_connection_count = 8;
    // Time that a call waits for a database that cannot be reached, such as one that restarts.
    absl::Duration patience = absl::Seconds(5);
    // Time that a call waits for a connection while all are lent.
    absl::Duration longest_wait = absl::Seconds(30);
    // Time that a transaction may take before the connection is shut down, because the database
    // counts as hung. Longer than the limit of a statement in the database itself.
    absl::Duration longest_transaction = absl::Seconds(30);
    // Outage after which calls no longer wait but fail at once, until the database is reached
    // again: more than several calls' patience, so that those survive a restart, and less than
    // `longest_transaction`, so that one call that has no answer suffices (OutageGate).
    absl::Duration tolerated_outage = absl::Seconds(25);
    // Pause between attempts to reach the database again, and time that transactions in progress
    // still have when the outage is no longer tolerated. Not measured: a refused connection costs
    // next to nothing, and a client waits 2 s for an answer as for a slow one.
    absl::Duration probe_interval = absl::Milliseconds(250);
    absl::Duration last_chance = absl::Seconds(2);
  };

  // The work of a transaction. It may throw exceptions of libpqxx. It may be called again, so it
  // changes nothing but the database and variables that it assigns anew.
  using Body = std::function<absl::Status(pqxx::transaction_base&)>;

  // Connects, to check the address, and tries again for `patience` if it cannot be reached. Errors,
  // all STORE_UNAVAILABLE, are UNAVAILABLE, DATA_LOSS and INTERNAL, and FAILED_PRECONDITION if the
  // database is not in UTF-8. Makes no tables.
  static absl::StatusOr<std::unique_ptr<PostgresPool>> Open(const Options& options);
  // Waits for an attempt to reach the database again, if one is in progress. REQUIRES: no call is
  // in progress; not checked.
  ~PostgresPool();

  // Runs `body` without a transaction: each statement sees its own moment. Repeats it if the
  // connection breaks or another transaction conflicts, at most 20 attempts in all. Returns the
  // error of `body`, which is not repeated, else that of `PostgresFailure`; UNAVAILABLE
  // (STORE_UNAVAILABLE) if it takes too long, which is not repeated either, and at once during an
  // outage that is no longer tolerated. Each attempt may wait for `longest_wait`, then for
  // `patience`, then for `longest_transaction`.
  absl::Status Read(const Body& body);

  // Runs `body` in a transaction and commits if it returns OK, else rolls back. Repeats it if
  // another transaction conflicted or the connection broke before the commit, at most 20 attempts
  // in all. Returns the error of `body`, else that of `PostgresFailure`; UNAVAILABLE
  // (STORE_UNAVAILABLE) at once if it takes too long, or if the connection broke during the commit,
  // whose outcome is then unknown.
  absl::Status Write(const Body& body);

  // Runs `body` like `Write`, however long it takes as a whole. The limits of the session hold (25
  // s a statement, 15 s for a lock, 20 s between statements) unless `body` lifts them with `SET
  // LOCAL`.
  absl::Status WriteUnhurried(const Body& body);

 private:
  class Loan;
  using Attempt = std::function<absl::Status(PostgresSession&, bool& in_doubt)>;

  explicit PostgresPool(const Options& options);
  absl::StatusOr<std::unique_ptr<PostgresSession>> Connect();
  // Returns a session, perhaps a new one, and counts it as lent.
  absl::StatusOr<std::unique_ptr<PostgresSession>> Borrow();
  // Return OK while calls may use the database, else the refusal.
  absl::Status CheckGate();
  absl::Status CheckGateLocked() const;
  void Succeeded();
  // Records a failure of a call that began at `start`, if it was for want of a connection or
  // answer.
  void Failed(absl::Duration start, const absl::Status& cause);
  // Tries to reach the database while the gate is shut; the code of the thread.
  void Probe();
  absl::Status RunOpen(const Attempt& once, bool is_hurried, bool& is_away);
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
  OutageGate gate_;                                     // Guarded by mutex_.
  std::condition_variable gate_changed_;
  bool is_ending_ = false;  // Guarded by mutex_.
  std::thread prober_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_POSTGRES_POOL_H_
