#include "server/store/statement_timer.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "base/check.h"
#include "gtest/gtest.h"

namespace parplan {
namespace {

// Two ends of a connection.
struct Connection {
  Connection() { PARPLAN_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0); }
  ~Connection() {
    for (const int end : ends) {
      if (end >= 0) close(end);
    }
  }
  // Waits for what the other end says: 1 for a byte, 0 for the end of the connection.
  ssize_t Read() const {
    char byte = 0;
    return read(ends[0], &byte, 1);
  }
  bool IsCut() const {
    char byte = 0;
    return recv(ends[1], &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  }

  int ends[2] = {-1, -1};
};

TEST(StatementTimer, WhoWaitsForAnAnswerReadsTheEndOfTheConnection) {
  StatementTimer timer(absl::Milliseconds(20));
  for (int i = 0; i < 3; ++i) {
    const Connection connection;
    const StatementTimer::Scope scope(timer, connection.ends[0]);
    EXPECT_EQ(connection.Read(), 0);
    EXPECT_TRUE(scope.IsCut());
  }
}

TEST(StatementTimer, EveryOneOfSeveralIsCut) {
  StatementTimer timer(absl::Milliseconds(20));
  std::vector<std::thread> threads;
  std::atomic<int> cut_count = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const Connection connection;
      const StatementTimer::Scope scope(timer, connection.ends[0]);
      if (connection.Read() == 0 && scope.IsCut()) ++cut_count;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cut_count, 8);
}

TEST(StatementTimer, WhatWasAnsweredIsNotCut) {
  StatementTimer timer(absl::Hours(1));
  const Connection connection;
  for (int i = 0; i < 100; ++i) {
    const StatementTimer::Scope scope(timer, connection.ends[0]);
    ASSERT_EQ(write(connection.ends[1], "+", 1), 1);
    EXPECT_EQ(connection.Read(), 1);
    EXPECT_FALSE(scope.IsCut());
  }
}

// The second statement is cut at its own end, though the timer slept towards that of the first.
TEST(StatementTimer, AConnectionWhoseStatementEndedIsLeftAlone) {
  StatementTimer timer(absl::Milliseconds(20));
  std::unique_ptr<Connection> answered;
  do {
    // On a busy machine the time may be over even so.
    answered = std::make_unique<Connection>();
    const StatementTimer::Scope first(timer, answered->ends[0]);
  } while (answered->IsCut());
  const Connection hung;
  const StatementTimer::Scope second(timer, hung.ends[0]);
  EXPECT_EQ(hung.Read(), 0);
  EXPECT_FALSE(answered->IsCut());
}

// A descriptor is closed and its number reused, as happens when a connection of libpq breaks.
TEST(StatementTimer, ADescriptorThatWasUsedAgainIsLeftAlone) {
  StatementTimer timer(absl::Milliseconds(200));
  Connection broken;
  const Connection other;
  const StatementTimer::Scope scope(timer, broken.ends[0]);
  const int number = broken.ends[0];
  ASSERT_EQ(dup2(other.ends[0], number), number);
  // The connection is cut: what was written before is read, then its end.
  char byte = 0;
  EXPECT_EQ(read(broken.ends[1], &byte, 1), 0);
  EXPECT_TRUE(scope.IsCut());
  ASSERT_EQ(write(other.ends[1], "+", 1), 1);
  EXPECT_EQ(read(number, &byte, 1), 1);
}

// Without a descriptor for the duplicate the connection stays whole, and the caller may go on.
TEST(StatementTimer, AConnectionThatCannotBeShutDownIsNotCut) {
  StatementTimer timer(absl::Milliseconds(1));
  const StatementTimer::Scope scope(timer, -1);
  const Connection hung;
  const StatementTimer::Scope later(timer, hung.ends[0]);
  // The limit of the first passes before that of the second.
  while (!later.IsCut()) std::this_thread::yield();
  EXPECT_FALSE(scope.IsCut());
}

}  // namespace
}  // namespace parplan
