#include "server/store/postgres_pool.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/steady_clock.h"

namespace parplan {
namespace {

// Largest number of attempts of a transaction. Each conflict means that another one succeeded.
constexpr int kMaxAttemptCount = 20;
constexpr absl::Duration kConnectPause = absl::Milliseconds(100);

// Makes commits wait for the disk whatever the default of the database is, since acknowledged
// changes must survive its kill. Keeps settings that are stronger than `on`.
//
// A server that freezes within a transaction, between statements that otherwise follow at once,
// keeps its locks for 20 s. The limits of TCP let the database end the session of a server that is
// lost or cut off, with its locks, after about 25 s of silence rather than after two hours. They do
// nothing for a session over a Unix socket.
constexpr char kSessionSetup[] =
    "SET client_min_messages = warning;"
    "SET client_encoding = 'UTF8';"
    "SET default_transaction_isolation = 'read committed';"
    "SET bytea_output = hex;"
    "SET statement_timeout = '25s';"
    "SET lock_timeout = '15s';"
    "SET idle_in_transaction_session_timeout = '20s';"
    "SET tcp_keepalives_idle = 10;"
    "SET tcp_keepalives_interval = 5;"
    "SET tcp_keepalives_count = 3;"
    "SET tcp_user_timeout = 20000;"
    "SELECT set_config('synchronous_commit', 'on', false) "
    "WHERE current_setting('synchronous_commit') IN ('off', 'local')";

}  // namespace

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

PostgresPool::PostgresPool(const Options& options)
    : options_(options),
      timer_(options.longest_transaction),
      gate_(options.tolerated_outage),
      prober_([this] { Probe(); }) {}

PostgresPool::~PostgresPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  gate_changed_.notify_all();
  prober_.join();
}

absl::StatusOr<std::unique_ptr<PostgresSession>> PostgresPool::Connect() {
  const absl::Duration end = SteadyNow() + options_.patience;
  while (true) {
    try {
      return std::make_unique<PostgresSession>(options_.uri, &timer_);
    } catch (const std::exception& error) {
      if (IsPostgresRefusal(error.what()) || SteadyNow() + kConnectPause >= end) {
        return ReadPostgresFailure(error).status;
      }
    }
    PARPLAN_RETURN_IF_ERROR(CheckGate());
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

absl::Status PostgresPool::CheckGateLocked() const {
  if (!gate_.is_shut()) return absl::OkStatus();
  return StoreUnavailable(
      "PostgreSQL is out of reach of this server, which therefore refuses calls at once: look at "
      "the network between them, or ask another replica",
      absl::StrCat(
          "for ",
          absl::FormatDuration(absl::Floor(SteadyNow() - gate_.outage_start(), absl::Seconds(1))),
          ", since ", absl::StripPrefix(gate_.cause().message(), "store: ")));
}

absl::Status PostgresPool::CheckGate() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return CheckGateLocked();
}

void PostgresPool::Succeeded() {
  const std::lock_guard<std::mutex> lock(mutex_);
  gate_.Succeeded(SteadyNow());
}

void PostgresPool::Failed(absl::Duration start, const absl::Status& cause) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!gate_.Failed(start, SteadyNow(), cause)) return;
  }
  timer_.Hurry(options_.last_chance);
  returned_.notify_all();
  gate_changed_.notify_all();
}

void PostgresPool::Probe() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    gate_changed_.wait(lock, [this] { return is_ending_ || gate_.is_shut(); });
    if (is_ending_) return;
    lock.unlock();
    bool is_there = false;
    try {
      const PostgresSession session(options_.uri, &timer_);
      is_there = true;
    } catch (const std::exception&) {
      is_there = false;
    }
    lock.lock();
    if (is_there) {
      gate_.Succeeded(SteadyNow());
    } else {
      gate_changed_.wait_for(lock, absl::ToChronoMilliseconds(options_.probe_interval),
                             [this] { return is_ending_; });
    }
  }
}

absl::StatusOr<std::unique_ptr<PostgresSession>> PostgresPool::Borrow() {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    // Statements that never end may use all connections.
    const bool is_free =
        returned_.wait_for(lock, absl::ToChronoMilliseconds(options_.longest_wait), [this] {
          return gate_.is_shut() || !idle_.empty() ||
                 connection_count_ < options_.max_connection_count;
        });
    PARPLAN_RETURN_IF_ERROR(CheckGateLocked());
    if (!is_free) {
      return StoreUnavailable(
          "PostgreSQL answers too slowly, or not at all: try again",
          absl::StrCat("all ", options_.max_connection_count, " connections are in use"));
    }
    if (!idle_.empty()) {
      std::unique_ptr<PostgresSession> session = std::move(idle_.back());
      idle_.pop_back();
      return session;
    }
    ++connection_count_;
  }
  absl::StatusOr<std::unique_ptr<PostgresSession>> made = Connect();
  if (!made.ok()) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      --connection_count_;
    }
    returned_.notify_all();
  }
  return made;
}

absl::Status PostgresPool::Run(const Attempt& once, bool is_hurried) {
  const absl::Duration start = SteadyNow();
  bool is_away = false;
  const absl::Status status = RunOpen(once, is_hurried, is_away);
  if (is_away) {
    Failed(start, status);
  } else {
    Succeeded();
  }
  return status;
}

absl::Status PostgresPool::RunOpen(const Attempt& once, bool is_hurried, bool& is_away) {
  for (int attempt = 1;; ++attempt) {
    absl::StatusOr<std::unique_ptr<PostgresSession>> session = Borrow();
    is_away = !session.ok();
    PARPLAN_RETURN_IF_ERROR(session.status());
    Loan loan(this, *std::move(session));
    bool in_doubt = false;
    // Outlives the transaction, whose end is a statement too.
    std::optional<StatementTimer::Scope> scope;
    if (is_hurried) scope.emplace(timer_, (*loan).connection().sock());
    try {
      absl::Status status = once(*loan, in_doubt);
      is_away = scope.has_value() && scope->IsCut();
      if (is_away) loan.Drop();
      return status;
    } catch (const std::exception& error) {
      PostgresFailure failure = ReadPostgresFailure(error);
      const bool is_cut = scope.has_value() && scope->IsCut();
      if (is_cut) {
        failure = {.status = StoreUnavailable(
                       "PostgreSQL does not answer: look at its load and its disk, and try again",
                       absl::StrCat("cut off after at most ",
                                    absl::FormatDuration(options_.longest_transaction))),
                   .is_broken = true};
      }
      if (!failure.is_broken && !(*loan).connection().is_open()) {
        failure.is_broken = true;
        failure.status = StoreUnavailable("PostgreSQL went away: try again", OneLine(error.what()));
      }
      // A new connection may find the primary, if the URI names several hosts.
      if (failure.is_broken || failure.is_of_standby) loan.Drop();
      is_away = failure.is_broken;
      if (failure.is_broken && in_doubt) {
        return StoreUnavailable(
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
