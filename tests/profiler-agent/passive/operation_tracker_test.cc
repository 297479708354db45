#include "profiler-agent/passive/operation_tracker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace parplan {
namespace {

PassiveShape Shape(int64_t size) {
  return {.operation = PassiveOperation::kAllGather,
          .participant_count = 4,
          .rank_stride = 2,
          .size_bytes = size};
}

TEST(OperationTracker, AnOperationLastsFromItsFirstChannelToItsLast) {
  OperationTracker tracker;
  const uint64_t operation = tracker.Start(Shape(64), 2);
  tracker.ChannelStarted(operation, 120);
  tracker.ChannelStarted(operation, 100);
  tracker.ChannelStopped(operation, 190);
  EXPECT_FALSE(tracker.ChannelDone(operation).has_value());
  tracker.ChannelStopped(operation, 170);
  const auto sample = tracker.ChannelDone(operation);
  ASSERT_TRUE(sample.has_value());
  EXPECT_EQ(sample->nanoseconds, 90);
  EXPECT_EQ(sample->shape, Shape(64));
  EXPECT_FALSE(tracker.ChannelDone(operation).has_value()) << "measured twice";
}

TEST(OperationTracker, WithoutTimesNothingIsMeasured) {
  OperationTracker tracker;
  const uint64_t silent = tracker.Start(Shape(64), 1);
  EXPECT_FALSE(tracker.ChannelDone(silent).has_value());
  const uint64_t begun = tracker.Start(Shape(64), 1);
  tracker.ChannelStarted(begun, 100);
  EXPECT_FALSE(tracker.ChannelDone(begun).has_value());
  EXPECT_FALSE(tracker.ChannelDone(0).has_value());
}

TEST(OperationTracker, AForgottenOperationDisturbsNoOther) {
  OperationTracker tracker;
  const uint64_t old = tracker.Start(Shape(1), 1);
  uint64_t last = 0;
  for (size_t i = 0; i < OperationTracker::kPlaceCount; ++i) last = tracker.Start(Shape(2), 1);
  tracker.ChannelStarted(old, 1);
  tracker.ChannelStopped(old, 999999);
  EXPECT_FALSE(tracker.ChannelDone(old).has_value());
  tracker.ChannelStarted(last, 10);
  tracker.ChannelStopped(last, 15);
  EXPECT_EQ(tracker.ChannelDone(last)->nanoseconds, 5);
}

TEST(SampleQueue, EverySampleIsTakenOnceOrCountedAsLost) {
  SampleQueue queue;
  constexpr int kThreads = 4;
  constexpr int kEach = 20000;
  std::atomic<int> running = kThreads;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        queue.Put({.shape = Shape(t + 1), .nanoseconds = i});
      }
      --running;
    });
  }
  int64_t taken = 0;
  std::vector<int64_t> latest(kThreads, -1);
  const auto take = [&] {
    while (const auto sample = queue.Take()) {
      ++taken;
      // Samples of one thread keep their order.
      int64_t& before = latest[sample->shape.size_bytes - 1];
      EXPECT_GT(sample->nanoseconds, before);
      before = sample->nanoseconds;
    }
  };
  while (running > 0) {
    take();
    std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  take();
  EXPECT_EQ(taken + queue.lost_count(), kThreads * kEach);
}

TEST(SampleQueue, AFullQueueLosesTheNewest) {
  SampleQueue queue;
  for (size_t i = 0; i < SampleQueue::kLength + 5; ++i) {
    queue.Put({.shape = Shape(1), .nanoseconds = static_cast<int64_t>(i)});
  }
  EXPECT_EQ(queue.lost_count(), 5);
  EXPECT_EQ(queue.Take()->nanoseconds, 0);
}

}  // namespace
}  // namespace parplan
