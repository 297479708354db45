// Connections to a PostgreSQL, lent to threads: what they do when it breaks them, leaves them
// without an answer, or has none left.

#include "server/store/postgres_pool.h"

#include <signal.h>
#include <sys/types.h>

#include <atomic>
#include <exception>
#include <memory>
#include <pqxx/pqxx>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/store/postgres_process.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;

// Ends every session of a pool, as an administrator may.
constexpr char kEndSessions[] =
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE application_name = 'parplan-server'";

absl::StatusOr<std::unique_ptr<PostgresPool>> OpenPool(PostgresPool::Options options) {
  options.uri = PostgresProcess::Shared().uri();
  options.patience = absl::Minutes(3);
  return PostgresPool::Open(options);
}

// On a busy machine half a second may be too short for any statement, so that whoever has such
// a pool tries again.
std::unique_ptr<PostgresPool> OpenHurried() {
  while (true) {
    auto pool =
        OpenPool({.max_connection_count = 1, .longest_transaction = absl::Milliseconds(500)});
    if (pool.ok()) return *std::move(pool);
  }
}

absl::Status DoNothing(pqxx::transaction_base&) { return absl::OkStatus(); }

// The process that serves the session.
pid_t ServerOf(pqxx::transaction_base& transaction) {
  return transaction.exec("SELECT pg_backend_pid()")[0][0].as<int>();
}

// A process that goes on at the end of the test, however that ends.
class Stopped {
 public:
  ~Stopped() { GoOn(); }
  void Stop(pid_t process) {
    process_ = process;
    EXPECT_EQ(kill(process, SIGSTOP), 0);
  }
  bool IsStopped() const { return process_ > 0; }
  void GoOn() {
    if (process_ > 0) kill(process_, SIGCONT);
    process_ = -1;
  }

 private:
  pid_t process_ = -1;
};

TEST(PostgresPool, ACallDoesNotWaitForeverForAConnection) {
  ASSERT_OK_AND_ASSIGN(const auto pool, OpenPool({.max_connection_count = 1,
                                                  .longest_wait = absl::Milliseconds(50),
                                                  .longest_transaction = absl::Minutes(3)}));
  absl::Status second;
  EXPECT_OK(pool->Read([&](pqxx::transaction_base&) {
    second = pool->Read(DoNothing);
    return absl::OkStatus();
  }));
  EXPECT_THAT(second, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("in use")));
  EXPECT_OK(pool->Read(DoNothing));
}

// Not every exception of libpqxx says that the connection is gone.
TEST(PostgresPool, WhateverAClosedConnectionThrowsIsUnavailable) {
  ASSERT_OK_AND_ASSIGN(const auto pool, OpenPool({.longest_transaction = absl::Minutes(3)}));
  EXPECT_THAT(pool->Read([](pqxx::transaction_base& transaction) -> absl::Status {
    try {
      transaction.exec("SELECT pg_terminate_backend(pg_backend_pid())");
    } catch (const std::exception&) {
    }
    throw pqxx::failure("closed");
  }),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("went away")));
}

// A primary that became a standby without ending its sessions; the URI may name its successor.
TEST(PostgresPool, AConnectionThatMayOnlyReadIsReplaced) {
  ASSERT_OK_AND_ASSIGN(const auto pool, OpenPool({.max_connection_count = 1,
                                                  .longest_wait = absl::Minutes(3),
                                                  .longest_transaction = absl::Minutes(3)}));
  EXPECT_OK(pool->Read([](pqxx::transaction_base& transaction) {
    transaction.exec("SET default_transaction_read_only = on");
    return absl::OkStatus();
  }));
  const auto write = [](pqxx::transaction_base& transaction) {
    transaction.exec("CREATE TABLE IF NOT EXISTS written (number BIGINT)");
    return absl::OkStatus();
  };
  EXPECT_THAT(pool->Write(write),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("the primary")));
  EXPECT_OK(pool->Write(write));
}

// The connection of a database that hangs holds, and no answer comes.
TEST(PostgresPool, AStatementThatHasNoAnswerIsUnavailable) {
  const auto pool = OpenHurried();
  Stopped server;
  while (!server.IsStopped()) {
    pid_t process = -1;
    const absl::Status asked = pool->Read([&process](pqxx::transaction_base& transaction) {
      process = ServerOf(transaction);
      return absl::OkStatus();
    });
    if (asked.ok()) server.Stop(process);
  }
  const absl::Status hung = pool->Read([](pqxx::transaction_base& transaction) {
    transaction.exec("SELECT 1");
    return absl::OkStatus();
  });
  EXPECT_THAT(hung, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("does not answer")));
  EXPECT_EQ(GetErrorDetail(hung)->reason, Reason::kStoreUnavailable);
  // The next one has another connection.
  while (!pool->Read(DoNothing).ok()) std::this_thread::yield();
}

TEST(PostgresPool, ACommitThatHasNoAnswerMayHaveHappened) {
  const auto pool = OpenHurried();
  Stopped server;
  absl::Status hung;
  while (!server.IsStopped()) {
    hung = pool->Write([&server](pqxx::transaction_base& transaction) {
      server.Stop(ServerOf(transaction));
      return absl::OkStatus();
    });
  }
  EXPECT_THAT(hung, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("may or may not")));
}

// An abandoned transaction sends a rollback to the database, which may hang just then.
TEST(PostgresPool, WhoGivesUpDoesNotWaitForADatabaseThatHangs) {
  const auto pool = OpenHurried();
  Stopped server;
  absl::Status refused;
  while (!server.IsStopped()) {
    refused = pool->Write([&server](pqxx::transaction_base& transaction) {
      server.Stop(ServerOf(transaction));
      return absl::NotFoundError("not there");
    });
  }
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kNotFound));
}

TEST(PostgresPool, AnOutageThatIsNotToleratedRefusesCallsAtOnceUntilItEnds) {
  ASSERT_OK_AND_ASSIGN(const auto pool,
                       PostgresPool::Open({.uri = PostgresProcess::Shared().uri(),
                                           .max_connection_count = 1,
                                           .patience = absl::Milliseconds(1),
                                           .longest_transaction = absl::Minutes(3),
                                           .tolerated_outage = absl::ZeroDuration(),
                                           .probe_interval = absl::Milliseconds(1)}));
  const auto ask = [](pqxx::transaction_base& transaction) {
    transaction.exec("SELECT 1");
    return absl::OkStatus();
  };
  EXPECT_OK(pool->Read(ask));
  PostgresProcess::Shared().Stop();
  // The first call waits as long as it may, and says what happened.
  EXPECT_THAT(pool->Read(ask), StatusIs(absl::StatusCode::kUnavailable));
  // Those that follow say so too, without another attempt.
  const absl::Status refused = pool->Write(ask);
  EXPECT_THAT(refused,
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("refuses calls at once")));
  EXPECT_EQ(GetErrorDetail(refused)->reason, Reason::kStoreUnavailable);
  PostgresProcess::Shared().Start();
  // It finds the way back by itself.
  while (!pool->Read(ask).ok()) std::this_thread::yield();
}

TEST(PostgresPool, CallsInProgressEndWhenAnOutageIsNotTolerated) {
  ASSERT_OK_AND_ASSIGN(const auto pool, OpenPool({.max_connection_count = 2,
                                                  .longest_wait = absl::Minutes(3),
                                                  .longest_transaction = absl::Minutes(3),
                                                  .tolerated_outage = absl::ZeroDuration(),
                                                  .last_chance = absl::Milliseconds(10)}));
  Stopped server;
  std::atomic<bool> hangs = false;
  absl::Status hung;
  std::thread caller([&] {
    hung = pool->Read([&](pqxx::transaction_base& transaction) {
      if (hangs) return absl::OkStatus();
      server.Stop(ServerOf(transaction));
      hangs = true;
      transaction.exec("SELECT 1");
      return absl::OkStatus();
    });
  });
  while (!hangs) std::this_thread::yield();
  // Another call finds out that the database is out of reach.
  const absl::Status failed = pool->Read([](pqxx::transaction_base&) -> absl::Status {
    throw pqxx::broken_connection("no packet comes back");
  });
  EXPECT_THAT(failed, StatusIs(absl::StatusCode::kUnavailable));
  caller.join();
  EXPECT_THAT(hung, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("does not answer")));
}

TEST(PostgresPool, WhatIsUnhurriedTakesAsLongAsItTakes) {
  const auto pool = OpenHurried();
  EXPECT_OK(pool->WriteUnhurried([](pqxx::transaction_base& transaction) {
    transaction.exec("SELECT pg_sleep(1)");
    return absl::OkStatus();
  }));
}

// More threads than connections, which break repeatedly: every write counts once, except those with
// an unknown result.
TEST(PostgresPool, ThreadsShareConnectionsThatBreak) {
  constexpr int kThreadCount = 6;
  constexpr int kRoundCount = 25;
  PostgresProcess::Shared().Execute(
      "DROP TABLE IF EXISTS counted; CREATE TABLE counted (number BIGINT);"
      "INSERT INTO counted VALUES (0)");
  ASSERT_OK_AND_ASSIGN(const auto pool, OpenPool({.max_connection_count = 3,
                                                  .longest_wait = absl::Minutes(3),
                                                  .longest_transaction = absl::Minutes(3)}));
  std::atomic<int> done_count = 0;
  std::atomic<int> doubt_count = 0;
  std::atomic<int> failed_count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreadCount; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRoundCount; ++round) {
        const absl::Status written = pool->Write([](pqxx::transaction_base& transaction) {
          transaction.exec("UPDATE counted SET number = number + 1");
          return absl::OkStatus();
        });
        if (written.ok()) {
          ++done_count;
        } else {
          ++doubt_count;
        }
        int64_t number = -1;
        const absl::Status read = pool->Read([&number](pqxx::transaction_base& transaction) {
          number = transaction.exec("SELECT number FROM counted")[0][0].as<int64_t>();
          return absl::OkStatus();
        });
        if (!read.ok() || number < 0) ++failed_count;
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    while (done_count + doubt_count < 10 * i) std::this_thread::yield();
    PostgresProcess::Shared().Execute(kEndSessions);
  }
  for (std::thread& thread : threads) thread.join();
  int64_t number = 0;
  EXPECT_OK(pool->Read([&number](pqxx::transaction_base& transaction) {
    number = transaction.exec("SELECT number FROM counted")[0][0].as<int64_t>();
    return absl::OkStatus();
  }));
  EXPECT_EQ(done_count + doubt_count, kThreadCount * kRoundCount);
  EXPECT_EQ(failed_count, 0);
  EXPECT_GE(number, done_count);
  EXPECT_LE(number, done_count + doubt_count);
}

}  // namespace
}  // namespace parplan
