#include "base/system/memory_account.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/system/worker_threads.h"

namespace parplan {
namespace {

constexpr int64_t kMega = int64_t{1} << 20;
// A thread may hold back this many bytes before it adds them to the account.
constexpr int64_t kShare = int64_t{64} << 10;

TEST(MemoryAccount, CountsWhatItsThreadTakesAndGivesBack) {
  MemoryAccount account(2 * kMega);
  MemoryAccount::Count(kMega);
  {
    const MemoryAccount::Scope scope(&account);
    EXPECT_EQ(MemoryAccount::OfThread(), &account);
    for (int i = 0; i < 3000; ++i) MemoryAccount::Count(1000);
    EXPECT_NEAR(static_cast<double>(account.bytes()), 3e6, kShare);
    EXPECT_TRUE(account.IsUsedUp());
    MemoryAccount::Count(-2'000'000);
    EXPECT_FALSE(account.IsUsedUp());
  }
  MemoryAccount::Count(kMega);
  EXPECT_EQ(MemoryAccount::OfThread(), nullptr);
  EXPECT_EQ(account.bytes(), 1'000'000);
  EXPECT_GE(account.peak_bytes(), 3'000'000 - kShare);
}

TEST(MemoryAccount, AScopeWithinAScopeCountsForItsOwn) {
  MemoryAccount outer(kMega);
  MemoryAccount inner(kMega);
  {
    const MemoryAccount::Scope first(&outer);
    MemoryAccount::Count(1);
    {
      const MemoryAccount::Scope second(&inner);
      MemoryAccount::Count(10);
      {
        const MemoryAccount::Scope third(nullptr);
        MemoryAccount::Count(100);
      }
      MemoryAccount::Count(1000);
    }
    MemoryAccount::Count(10'000);
  }
  EXPECT_EQ(outer.bytes(), 10'001);
  EXPECT_EQ(inner.bytes(), 1010);
}

TEST(MemoryAccount, HelpersCountForTheCallerOfTheWork) {
  WorkerThreads threads(1);
  MemoryAccount account(kMega);
  std::atomic<int> begun = 0;
  {
    const MemoryAccount::Scope scope(&account);
    // Each piece waits for the other: two threads have one each.
    threads.Run(2, [&begun](int64_t) {
      MemoryAccount::Count(500);
      ++begun;
      while (begun < 2) std::this_thread::yield();
    });
  }
  EXPECT_EQ(account.bytes(), 1000);
  // A job of a thread without an account is counted in none.
  begun = 0;
  threads.Run(2, [&begun](int64_t) {
    MemoryAccount::Count(500);
    ++begun;
    while (begun < 2) std::this_thread::yield();
  });
  EXPECT_EQ(account.bytes(), 1000);
}

}  // namespace
}  // namespace parplan
