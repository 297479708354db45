#include "server/store/postgres_pool.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/store/store_errors.h"

namespace parplan {
namespace {

// Largest number of attempts of a transaction. Each conflict means that another one succeeded.
constexpr int kMaxAttemptCount = 20;
constexpr absl::Duration kConnectPause = absl::Milliseconds(100);

// Makes commits wait for the disk whatever the default of the database is, since acknowledged
// changes must survive its kill. Keeps settings that are stronger than `on`.
constexpr char kSessionSetup[] =
    "SET client_min_messages = warning;"
    "SET client_encoding = 'UTF8';"
    "SET default_transaction_isolation = 'read committed';"
    "SET bytea_output = hex;"
    "SET statement_timeout = '25s';"
    "SET lock_timeout = '15s';"
    "SET idle_in_transaction_session_timeout = '60s';"
    "SELECT set_config('synchronous_commit', 'on', false) "
    "WHERE current_setting('synchronous_commit') IN ('off', 'local')";

bool HasClass(absl::string_view code, absl::string_view of) { return absl::StartsWith(code, of); }

// Returns advice for failures that a person can mend; empty for others.
absl::string_view Remedy(absl::string_view code) {
  if (code == "53300") {
    return "PostgreSQL takes no more connections: raise its max_connections, or run fewer replicas";
  }
  if (HasClass(code, "53")) return "PostgreSQL has no more memory or files: give it more";
  if (code == "55P03" || code == "57014") {
    return "PostgreSQL took too long, or a lock was held for too long: try again";
  }
  if (HasClass(code, "57P") || HasClass(code, "08")) {
    return "PostgreSQL is away, starts or ends: try again";
  }
  if (code == "25006") {
    return "this PostgreSQL may only be read: name the primary in --store, not a standby";
  }
  if (code == "42501") {
    return "the user of --store may not do this: let it own the tables, or run `parplan-server "
           "store "
           "migrate` as one that may make them";
  }
  if (HasClass(code, "28") || HasClass(code, "3D") || HasClass(code, "3F")) {
    return "PostgreSQL refuses user, database or schema: check --store, PGPASSFILE and pg_hba.conf";
  }
  if (HasClass(code, "58")) {
    return "PostgreSQL could not read or write: look at its log and the kernel's";
  }
  return "";
}

absl::Status Unavailable(absl::string_view remedy, absl::string_view what) {
  return MakeError(absl::StatusCode::kUnavailable, Reason::kStoreUnavailable,
                   absl::StrCat("store: ", remedy, " (", what, ")"));
}

absl::Status StatementError(const std::string& code, absl::string_view message) {
  const std::string what = absl::StrCat(message, ", SQLSTATE ", code);
  if (code == "53100") {
    return DiskFullError(
        absl::StrCat("the disk of PostgreSQL is full: free some space and try again (", what, ")"));
  }
  const absl::string_view remedy = Remedy(code);
  if (!remedy.empty()) return Unavailable(remedy, what);
  if (code == "XX001" || code == "XX002") {
    return MakeError(absl::StatusCode::kDataLoss, Reason::kStoreUnavailable,
                     absl::StrCat("store: the database is damaged: stop PostgreSQL, keep a copy of "
                                  "its data, and restore a backup (",
                                  what, ")"));
  }
  if (HasClass(code, "54")) {
    return MakeError(absl::StatusCode::kResourceExhausted, Reason::kUploadTooLarge,
                     absl::StrCat("store: the record is larger than PostgreSQL takes: send it in "
                                  "several parts (",
                                  what, ")"));
  }
  return MakeError(absl::StatusCode::kInternal, Reason::kStoreUnavailable,
                   absl::StrCat("store: a statement failed, which is a mistake of the server: "
                                "please report it (",
                                what, ")"));
}

// Returns a message as one line; those of libpq have several.
std::string OneLine(absl::string_view text) {
  std::string line(absl::StripAsciiWhitespace(text));
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

// Returns whether `message` is a refusal that waiting cannot change.
bool IsRefusal(absl::string_view message) {
  for (const absl::string_view sign :
       {"authentication failed", "does not exist", "no pg_hba.conf entry", "no password supplied",
        "invalid connection option", "invalid URI", "permission denied for database"}) {
    if (absl::StrContains(message, sign)) return true;
  }
  return false;
}

}  // namespace

PostgresFailure ReadPostgresFailure(const std::exception& error) {
  const std::string message = OneLine(error.what());
  PostgresFailure failure;
  if (dynamic_cast<const pqxx::broken_connection*>(&error) != nullptr) {
    failure.is_broken = true;
    failure.status = Unavailable(
        IsRefusal(message) ? Remedy("28000") : absl::string_view("PostgreSQL is away: try again"),
        message);
  } else if (dynamic_cast<const pqxx::in_doubt_error*>(&error) != nullptr) {
    failure.is_broken = true;
    failure.status = Unavailable("PostgreSQL went away: try again", message);
  } else if (dynamic_cast<const pqxx::transaction_rollback*>(&error) != nullptr) {
    failure.is_conflict = true;
    failure.status = Unavailable("other transactions were in the way: try again", message);
  } else if (const auto* statement = dynamic_cast<const pqxx::sql_error*>(&error)) {
    const std::string& code = statement->sqlstate();
    // Unique and foreign keys: another transaction was first; the next attempt sees its row.
    failure.is_conflict = code == "23505" || code == "23503" || HasClass(code, "40");
    failure.is_broken = HasClass(code, "57P") || HasClass(code, "08") || code.empty();
    failure.is_of_standby = code == "25006";
    failure.status = code.empty() ? Unavailable("PostgreSQL is away: try again", message)
                                  : StatementError(code, message);
  } else {
    failure.status =
        MakeError(absl::StatusCode::kInternal, Reason::kStoreUnavailable,
                  absl::StrCat("store: a mistake of the server, please report it: ", message));
  }
  return failure;
}

std::string WithPostgresDefaults(absl::string_view uri) {
  std::string full(uri);
  const auto add = [&full](absl::string_view name, absl::string_view value) {
    if (absl::StrContains(full, absl::StrCat(name, "="))) return;
    absl::StrAppend(&full, absl::StrContains(full, "?") ? "&" : "?", name, "=", value);
  };
  add("connect_timeout", "5");
  add("application_name", "parplan-server");
  // Limits unacknowledged packets, so that a vanished host is noticed within half a minute.
  add("tcp_user_timeout", "30000");
  add("keepalives_idle", "15");
  return full;
}

PostgresSession::PostgresSession(const std::string& uri, StatementTimer* timer)
    : connection_(uri), quiet_(connection_) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  // A broken session is not reconnected: a new one would lack the settings below and its locks.
  connection_.inhibit_reactivation(true);
#pragma GCC diagnostic pop
  std::optional<StatementTimer::Scope> scope;
  if (timer != nullptr) scope.emplace(*timer, connection_.sock());
  pqxx::nontransaction setup(connection_);
  setup.exec(kSessionSetup);
}

// A session on loan for one attempt, returned to the pool or closed if it broke.
class PostgresPool::Loan {
 public:
  Loan(PostgresPool* pool, std::unique_ptr<PostgresSession> session)
      : pool_(pool), session_(std::move(session)) {}
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  ~Loan() {
    {
      const std::lock_guard<std::mutex> lock(pool_->mutex_);
      if (session_ != nullptr && session_->connection().is_open()) {
        pool_->idle_.push_back(std::move(session_));
      } else {
        --pool_->connection_count_;
        // The idle sessions probably broke at the same time.
        pool_->connection_count_ -= static_cast<int>(pool_->idle_.size());
        pool_->idle_.clear();
      }
    }
    pool_->returned_.notify_all();
  }
  PostgresSession& operator*() const { return *session_; }
  void Drop() { session_.reset(); }

 private:
  PostgresPool* pool_;
  std::unique_ptr<PostgresSession> session_;
};

absl::StatusOr<std::unique_ptr<PostgresPool>> PostgresPool::Open(const Options& options) {
  PARPLAN_CHECK(options.max_connection_count >= 1);
  Options full = options;
  full.uri = WithPostgresDefaults(options.uri);
  std::unique_ptr<PostgresPool> pool(new PostgresPool(full));
  std::string encoding;
  PARPLAN_RETURN_IF_ERROR(pool->Read([&encoding](pqxx::transaction_base& transaction) {
    encoding = transaction.exec("SHOW server_encoding")[0][0].c_str();
    return absl::OkStatus();
  }));
  if (encoding != "UTF8") {
    return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kStoreUnavailable,
                     absl::StrCat("store: the database has encoding ", encoding,
                                  "; make one with ENCODING 'UTF8'"));
  }
  return pool;
}

absl::StatusOr<std::unique_ptr<PostgresSession>> PostgresPool::Connect() {
  const absl::Time end = absl::Now() + options_.patience;
  while (true) {
    try {
      return std::make_unique<PostgresSession>(options_.uri, &timer_);
    } catch (const std::exception& error) {
      if (IsRefusal(error.what()) || absl::Now() + kConnectPause >= end) {
        return ReadPostgresFailure(error).status;
      }
    }
    absl::SleepFor(kConnectPause);
  }
}

PostgresPool::Attempt PostgresPool::Committing(const Body& body) {
  return [&body](PostgresSession& session, bool& in_doubt) -> absl::Status {
    pqxx::work transaction(session.connection());
    PARPLAN_RETURN_IF_ERROR(body(transaction));
    in_doubt = true;
    transaction.commit();
    return absl::OkStatus();
  };
}

absl::Status PostgresPool::Run(const Attempt& once, bool is_hurried) {
  for (int attempt = 1;; ++attempt) {
    std::unique_ptr<PostgresSession> session;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      // Statements that never end may use all connections.
      const bool is_free = returned_.wait_for(
          lock, absl::ToChronoMilliseconds(options_.longest_wait),
          [this] { return !idle_.empty() || connection_count_ < options_.max_connection_count; });
      if (!is_free) {
        return Unavailable(
            "PostgreSQL answers too slowly, or not at all: try again",
            absl::StrCat("all ", options_.max_connection_count, " connections are in use"));
      }
      if (idle_.empty()) {
        ++connection_count_;
      } else {
        session = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    const bool is_new = session == nullptr;
    if (is_new) {
      absl::StatusOr<std::unique_ptr<PostgresSession>> made = Connect();
      if (!made.ok()) {
        {
          const std::lock_guard<std::mutex> lock(mutex_);
          --connection_count_;
        }
        returned_.notify_all();
        return made.status();
      }
      session = *std::move(made);
    }
    Loan loan(this, std::move(session));
    bool in_doubt = false;
    // Outlives the transaction, whose end is a statement too.
    std::optional<StatementTimer::Scope> scope;
    if (is_hurried) scope.emplace(timer_, (*loan).connection().sock());
    try {
      absl::Status status = once(*loan, in_doubt);
      if (scope.has_value() && scope->IsCut()) loan.Drop();
      return status;
    } catch (const std::exception& error) {
      PostgresFailure failure = ReadPostgresFailure(error);
      const bool is_cut = scope.has_value() && scope->IsCut();
      if (is_cut) {
        failure = {
            .status = Unavailable(
                "PostgreSQL does not answer: look at its load and its disk, and try again",
                absl::StrCat("cut off after ", absl::FormatDuration(options_.longest_transaction))),
            .is_broken = true};
      }
      if (!failure.is_broken && !(*loan).connection().is_open()) {
        failure.is_broken = true;
        failure.status = Unavailable("PostgreSQL went away: try again", OneLine(error.what()));
      }
      // A new connection may find the primary, if the URI names several hosts.
      if (failure.is_broken || failure.is_of_standby) loan.Drop();
      if (failure.is_broken && in_doubt) {
        return Unavailable(
            "PostgreSQL went away during a commit, which may or may not have happened: repeat "
            "the request with its request_id",
            OneLine(error.what()));
      }
      // A call that waited this long is not repeated.
      const bool may_do = (failure.is_broken || failure.is_conflict) && !is_cut;
      if (!may_do || attempt == kMaxAttemptCount) return failure.status;
    }
    // Conflicting transactions are in progress; a pause avoids meeting them again.
    if (attempt > 2) absl::SleepFor(absl::Milliseconds(attempt));
  }
}

absl::Status PostgresPool::Read(const Body& body) {
  return Run(
      [&body](PostgresSession& session, bool&) {
        pqxx::nontransaction transaction(session.connection());
        return body(transaction);
      },
      true);
}

absl::Status PostgresPool::Write(const Body& body) { return Run(Committing(body), true); }

absl::Status PostgresPool::WriteUnhurried(const Body& body) { return Run(Committing(body), false); }

}  // namespace parplan
