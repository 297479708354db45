// Turns of servers that share a database.

#include "server/store/postgres_turns.h"

#include <signal.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <pqxx/pqxx>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/server/store/postgres_process.h"

namespace parplan {
namespace {

bool Always() { return true; }

// Asks, and gives what is granted later.
std::future<std::unique_ptr<Turn>> Ask(Turns& turns, const std::string& key,
                                       std::function<bool()> waits = Always) {
  const auto promise = std::make_shared<std::promise<std::unique_ptr<Turn>>>();
  turns.Ask(key, std::move(waits),
            [promise](std::unique_ptr<Turn> turn) { promise->set_value(std::move(turn)); });
  return promise->get_future();
}

bool IsReady(const std::future<std::unique_ptr<Turn>>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

std::unique_ptr<PostgresTurns> OpenTurns(absl::Duration poll_interval = absl::Milliseconds(50),
                                         absl::Duration longest_statement = absl::Minutes(3)) {
  return std::make_unique<PostgresTurns>(
      PostgresTurns::Options{.uri = PostgresProcess::Shared().uri(),
                             .poll_interval = poll_interval,
                             .longest_statement = longest_statement});
}

// The process that serves the session that holds a turn.
pid_t HolderOf(const std::string& key) {
  pqxx::connection connection(PostgresProcess::Shared().uri());
  pqxx::nontransaction transaction(connection);
  return transaction
      .exec_params(
          "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND "
          "((classid::bigint << 32) | objid::bigint) = hashtextextended($1, 0)",
          key)[0][0]
      .as<int>();
}

TEST(PostgresTurns, AFreeTurnIsGranted) {
  const auto turns = OpenTurns();
  std::unique_ptr<Turn> first = Ask(*turns, "a").get();
  EXPECT_NE(first, nullptr);
  // Others have nothing to do with it.
  EXPECT_NE(Ask(*turns, "b").get(), nullptr);
}

// There is no polling here, so the notification wakes the waiting thread.
TEST(PostgresTurns, WhoWaitsIsWokenWhenATurnIsGivenBack) {
  const auto holder = OpenTurns();
  const auto waiter = OpenTurns(absl::Hours(1));
  std::unique_ptr<Turn> held = Ask(*holder, "woken").get();
  ASSERT_NE(held, nullptr);
  auto later = Ask(*waiter, "woken");
  // Answered after the question before it was looked at.
  ASSERT_NE(Ask(*waiter, "another").get(), nullptr);
  EXPECT_FALSE(IsReady(later));
  held.reset();
  EXPECT_NE(later.get(), nullptr);
}

TEST(PostgresTurns, ManyServersHoldItOneAfterTheOther) {
  constexpr int kServerCount = 4;
  constexpr int kRoundCount = 10;
  std::vector<std::unique_ptr<PostgresTurns>> servers;
  for (int i = 0; i < kServerCount; ++i) servers.push_back(OpenTurns(absl::Seconds(5)));
  std::atomic<int> holder_count = 0;
  std::atomic<int> together_count = 0;
  std::vector<std::thread> threads;
  for (auto& server : servers) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRoundCount; ++round) {
        std::unique_ptr<Turn> turn = Ask(*server, "many").get();
        if (turn == nullptr || ++holder_count > 1) ++together_count;
        std::this_thread::yield();
        --holder_count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(together_count, 0);
}

TEST(PostgresTurns, ATurnOfAServerThatDiesGoesToTheNext) {
  auto dying = OpenTurns();
  const auto waiter = OpenTurns();
  std::unique_ptr<Turn> held = Ask(*dying, "dies").get();
  ASSERT_NE(held, nullptr);
  auto later = Ask(*waiter, "dies");
  // Its session ends without a word, as that of a killed process.
  PostgresProcess::Shared().Execute(
      "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted");
  EXPECT_NE(later.get(), nullptr);
  // The one that went back by itself is not given back again.
  held.reset();
  // It may first have to notice that it died.
  while (Ask(*dying, "still works").get() == nullptr) std::this_thread::yield();
}

TEST(PostgresTurns, WhoDoesNotWaitAnyMoreGoesOnWithoutATurn) {
  const auto holder = OpenTurns();
  const auto waiter = OpenTurns();
  std::unique_ptr<Turn> held = Ask(*holder, "left").get();
  std::atomic<bool> waits = true;
  auto later = Ask(*waiter, "left", [&waits] { return waits.load(); });
  ASSERT_NE(Ask(*waiter, "another").get(), nullptr);
  EXPECT_FALSE(IsReady(later));
  waits = false;
  EXPECT_EQ(later.get(), nullptr);
}

TEST(PostgresTurns, NobodyWaitsForADatabaseThatIsAway) {
  const auto turns = OpenTurns();
  EXPECT_NE(Ask(*turns, "there").get(), nullptr);
  PostgresProcess::Shared().Stop();
  auto alone = Ask(*turns, "away");
  EXPECT_EQ(alone.get(), nullptr);
  PostgresProcess::Shared().Start();
  // It finds the way back by itself.
  while (Ask(*turns, "back").get() == nullptr) std::this_thread::yield();
}

// Its connection holds, and no answer comes.
TEST(PostgresTurns, NobodyWaitsForADatabaseThatHangs) {
  auto turns = OpenTurns(absl::Milliseconds(50), absl::Milliseconds(500));
  std::unique_ptr<Turn> held;
  // On a busy machine half a second may be too short.
  while (held == nullptr) held = Ask(*turns, "hangs").get();
  const pid_t server = HolderOf("hangs");
  ASSERT_EQ(kill(server, SIGSTOP), 0);
  auto second = Ask(*turns, "hangs too");
  EXPECT_EQ(second.get(), nullptr);
  held.reset();
  turns->Stop();
  EXPECT_EQ(Ask(*turns, "after").get(), nullptr);
  turns.reset();
  EXPECT_EQ(kill(server, SIGCONT), 0);
}

// A session that takes the turn of `key` and never says a word, as that of a frozen server.
class FrozenHolder {
 public:
  explicit FrozenHolder(const std::string& key)
      : connection_(PostgresProcess::Shared().uri()), transaction_(connection_) {
    transaction_.exec_params("SELECT pg_advisory_lock(hashtextextended($1, 0))", key);
  }

 private:
  pqxx::connection connection_;
  pqxx::nontransaction transaction_;
};

TEST(PostgresTurns, NobodyWaitsForAHolderThatGivesNoSignOfLife) {
  const FrozenHolder holder("frozen");
  PostgresTurns waiter({.uri = PostgresProcess::Shared().uri(),
                        .poll_interval = absl::Milliseconds(10),
                        .longest_statement = absl::Minutes(3),
                        .longest_silence = absl::Milliseconds(100)});
  auto first = Ask(waiter, "frozen");
  auto second = Ask(waiter, "frozen");
  EXPECT_EQ(first.get(), nullptr);
  EXPECT_EQ(second.get(), nullptr);
}

// Its signs alone tell the one who waits that it is at work.
TEST(PostgresTurns, WhoWaitsForAHolderThatGivesSignsWaitsOn) {
  constexpr absl::Duration kLongestSilence = absl::Seconds(2);
  PostgresTurns holder({.uri = PostgresProcess::Shared().uri(),
                        .longest_statement = absl::Minutes(3),
                        .sign_interval = absl::Milliseconds(10)});
  PostgresTurns waiter({.uri = PostgresProcess::Shared().uri(),
                        .poll_interval = absl::Milliseconds(10),
                        .longest_statement = absl::Minutes(3),
                        .longest_silence = kLongestSilence});
  std::unique_ptr<Turn> held = Ask(holder, "at work").get();
  ASSERT_NE(held, nullptr);
  auto later = Ask(waiter, "at work");
  // Answered after the question before it was looked at, whose wait has begun therefore.
  ASSERT_NE(Ask(waiter, "begun").get(), nullptr);
  EXPECT_EQ(later.wait_for(absl::ToChronoMilliseconds(kLongestSilence + absl::Seconds(1))),
            std::future_status::timeout);
  held.reset();
  EXPECT_NE(later.get(), nullptr);
}

TEST(PostgresTurns, AHolderGivesSignsOfLifeUntilItReturnsTheTurn) {
  PostgresTurns holder({.uri = PostgresProcess::Shared().uri(),
                        .longest_statement = absl::Minutes(3),
                        .sign_interval = absl::Milliseconds(10)});
  pqxx::connection connection(PostgresProcess::Shared().uri());
  class Signs : public pqxx::notification_receiver {
   public:
    explicit Signs(pqxx::connection& connection)
        : pqxx::notification_receiver(connection, "parplan_turn_signs") {}
    void operator()(const std::string& key, int) override { keys.push_back(key); }
    std::vector<std::string> keys;
  } signs(connection);
  std::unique_ptr<Turn> held = Ask(holder, "works").get();
  ASSERT_NE(held, nullptr);
  while (signs.keys.size() < 3) connection.await_notification();
  EXPECT_EQ(signs.keys.front(), "works");
  held.reset();
  // Answered after the turn was returned; what was sent until then is read, and nothing comes
  // after.
  std::unique_ptr<Turn> other = Ask(holder, "another").get();
  ASSERT_NE(other, nullptr);
  while (signs.keys.back() != "another") connection.await_notification();
  signs.keys.clear();
  while (signs.keys.size() < 3) connection.await_notification();
  for (const std::string& key : signs.keys) EXPECT_EQ(key, "another");
}

TEST(PostgresTurns, StoppingLetsEverybodyGo) {
  const auto holder = OpenTurns();
  const auto waiter = OpenTurns(absl::Hours(1));
  std::unique_ptr<Turn> held = Ask(*holder, "stop").get();
  auto later = Ask(*waiter, "stop");
  waiter->Stop();
  EXPECT_EQ(later.get(), nullptr);
  EXPECT_EQ(Ask(*waiter, "after").get(), nullptr);
}

}  // namespace
}  // namespace parplan
