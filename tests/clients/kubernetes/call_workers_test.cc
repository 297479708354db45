#include "clients/kubernetes/call_workers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace parplan::sidecar {
namespace {

// A task that runs until it is let go.
struct HeldTask {
  std::function<void()> Function() {
    return [this] {
      begun.set_value();
      end.get_future().wait();
    };
  }

  std::promise<void> begun;
  std::promise<void> end;
};

TEST(CallWorkers, RefusesATaskWhileAllAreBusy) {
  // Tasks use these, so they outlive the workers, whose end waits for the tasks.
  HeldTask held[2];
  std::atomic<bool> has_run = false;
  std::promise<void> ran;
  CallWorkers workers(2);
  for (HeldTask& task : held) ASSERT_TRUE(workers.Run(task.Function()));
  EXPECT_FALSE(workers.Run([&has_run] { has_run = true; }));
  for (HeldTask& task : held) task.begun.get_future().wait();
  EXPECT_FALSE(workers.Run([&has_run] { has_run = true; }));
  // One that is free takes the next task; its end may come a moment after what the task did last.
  held[1].end.set_value();
  while (!workers.Run([&ran] { ran.set_value(); })) std::this_thread::yield();
  ran.get_future().wait();
  held[0].end.set_value();
  EXPECT_FALSE(has_run);
}

// A refused task is dropped with all that it owns.
TEST(CallWorkers, ARefusedTaskIsNotKept) {
  HeldTask held;
  CallWorkers workers(1);
  ASSERT_TRUE(workers.Run(held.Function()));
  const auto owned = std::make_shared<int>(1);
  EXPECT_FALSE(workers.Run([owned] {}));
  EXPECT_EQ(owned.use_count(), 1);
  held.end.set_value();
}

TEST(CallWorkers, RunsEachTaskOnceAndAsManyAtATimeAsThereAreThreads) {
  constexpr int kThreadCount = 3;
  constexpr int kTaskCount = 300;
  std::vector<std::atomic<int>> runs(kTaskCount);
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  {
    CallWorkers workers(kThreadCount);
    for (std::atomic<int>& count : runs) {
      const auto task = [&] {
        const int now = ++running;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        ++count;
        --running;
      };
      while (!workers.Run(task)) std::this_thread::yield();
    }
  }
  for (const std::atomic<int>& count : runs) EXPECT_EQ(count, 1);
  EXPECT_LE(most, kThreadCount);
}

// With one thread the order is that of the calls.
TEST(CallWorkers, TasksOfOneThreadRunInTheirOrder) {
  std::vector<int> order;
  {
    CallWorkers workers(1);
    for (int i = 0; i < 50; ++i) {
      while (!workers.Run([&order, i] { order.push_back(i); })) std::this_thread::yield();
    }
  }
  EXPECT_EQ(order.size(), 50u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

// A task that was taken runs, also if no thread has begun it when the end comes.
TEST(CallWorkers, TheEndWaitsForTheTasksThatWereTaken) {
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> count = 0;
    {
      CallWorkers workers(4);
      for (int i = 0; i < 4; ++i) ASSERT_TRUE(workers.Run([&count] { ++count; }));
    }
    ASSERT_EQ(count, 4);
  }
}

TEST(CallWorkers, TheEndWaitsForATaskThatRuns) {
  HeldTask held;
  std::atomic<bool> has_ended = false;
  auto workers = std::make_unique<CallWorkers>(1);
  ASSERT_TRUE(workers->Run([&] {
    held.Function()();
    has_ended = true;
  }));
  held.begun.get_future().wait();
  std::thread end([&] {
    workers.reset();
    EXPECT_TRUE(has_ended);
  });
  held.end.set_value();
  end.join();
}

TEST(CallWorkers, EndsWithoutATask) { CallWorkers workers(8); }

TEST(CallWorkers, IsIdleWhileNoTaskRunsOrWaits) {
  HeldTask held;
  CallWorkers workers(2);
  EXPECT_TRUE(workers.is_idle());
  ASSERT_TRUE(workers.Run(held.Function()));
  EXPECT_FALSE(workers.is_idle());
  held.begun.get_future().wait();
  EXPECT_FALSE(workers.is_idle());
  held.end.set_value();
  while (!workers.is_idle()) std::this_thread::yield();
}

// A task holds what it owns until it has ended, and no longer than the workers live.
TEST(CallWorkers, ATaskIsGoneWhenItHasRun) {
  const auto owned = std::make_shared<int>(1);
  {
    CallWorkers workers(1);
    ASSERT_TRUE(workers.Run([owned] {}));
    // The next one is taken once the first is over, and the one thread has let go of it.
    while (!workers.Run([] {})) std::this_thread::yield();
  }
  EXPECT_EQ(owned.use_count(), 1);
}

}  // namespace
}  // namespace parplan::sidecar
