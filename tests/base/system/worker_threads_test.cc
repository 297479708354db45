#include "base/system/worker_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <thread>
#include <vector>

namespace parplan {
namespace {

TEST(WorkerThreads, DoesEveryPieceOnce) {
  for (const int helper_count : {0, 1, 3}) {
    WorkerThreads threads(helper_count);
    EXPECT_EQ(threads.helper_count(), helper_count);
    for (const int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> done(static_cast<size_t>(count));
      threads.Run(count, [&done](int64_t index) { ++done[static_cast<size_t>(index)]; });
      for (int64_t i = 0; i < count; ++i) {
        EXPECT_EQ(done[static_cast<size_t>(i)], 1)
            << i << " of " << count << " with " << helper_count;
      }
    }
  }
}

TEST(WorkerThreads, HelpersWorkBesideTheCaller) {
  WorkerThreads threads(1);
  // Each piece waits for the other: one thread alone would never end.
  std::atomic<int> begun = 0;
  threads.Run(2, [&begun](int64_t) {
    ++begun;
    while (begun < 2) std::this_thread::yield();
  });
  EXPECT_EQ(begun, 2);
}

TEST(WorkerThreads, CountsTheTimeOfHelpersAlone) {
  WorkerThreads none(0);
  const auto nothing = [](int64_t) {};
  EXPECT_EQ(none.Run(100, nothing), absl::ZeroDuration());
  WorkerThreads threads(1);
  std::atomic<int> begun = 0;
  const absl::Duration spent = threads.Run(2, [&begun](int64_t) {
    ++begun;
    while (begun < 2) std::this_thread::yield();
  });
  EXPECT_GT(spent, absl::ZeroDuration());
}

TEST(WorkerThreads, ThrowsWhatAPieceThrew) {
  for (const int helper_count : {0, 1, 3}) {
    WorkerThreads threads(helper_count);
    std::atomic<int> begun = 0;
    const auto work = [&begun](int64_t index) {
      ++begun;
      if (index == 3) throw std::bad_alloc();
    };
    EXPECT_THROW(threads.Run(1'000'000, work), std::bad_alloc);
    EXPECT_GE(begun, 1);
    EXPECT_LT(begun, 1'000'000);
    begun = 0;
    threads.Run(2, work);  // The threads are there as before.
    EXPECT_EQ(begun, 2);
  }
}

TEST(WorkerThreads, ServesSeveralCallersAndCallsWithinCalls) {
  WorkerThreads threads(2);
  std::atomic<int> done = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&threads, &done] {
      threads.Run(50,
                  [&threads, &done](int64_t) { threads.Run(20, [&done](int64_t) { ++done; }); });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(done, 4 * 50 * 20);
}

}  // namespace
}  // namespace parplan
