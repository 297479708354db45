// Conformance of every store: use by many threads at once.

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/store/store_conformance.h"

namespace parplan {
namespace {

constexpr int kThreadCount = 8;

// Runs `body(0)` to `body(kThreadCount - 1)`, each on its own thread.
template <typename Body>
void OnThreads(const Body& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreadCount; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

TEST_P(StoreConformance, ReadersSeeWholeProfilesAndTheirOwnRevision) {
  constexpr int kPuts = 15;
  std::atomic<int> half_count = 0;
  std::atomic<int> error_count = 0;
  std::atomic<int> writers_left = kThreadCount / 2;
  OnThreads([&](int thread) {
    if (thread % 2 == 0) {
      for (int i = 0; i < kPuts; ++i) {
        const std::string id = absl::StrCat(thread, "-", i);
        // Many pages long, so that half of one could be seen.
        if (!store().PutProfile(SampleProfile("c", "n", id, 40000)).ok()) ++error_count;
      }
      --writers_left;
      return;
    }
    int64_t last_revision = 0;
    do {
      const auto set = store().SnapshotProfiles("c");
      if (!set.ok()) {
        ++error_count;
        return;
      }
      // Nothing is deleted here, so the revision counts the profiles.
      if (set->revision != static_cast<int64_t>(set->profiles.size())) ++half_count;
      if (set->revision < last_revision) ++half_count;
      last_revision = set->revision;
      for (const ProfileRecord& profile : set->profiles) {
        if (!AreSampleBytes(profile.name, profile.bytes)) ++half_count;
      }
    } while (writers_left > 0);
  });
  EXPECT_EQ(half_count, 0);
  EXPECT_EQ(error_count, 0);
  EXPECT_EQ(store().SnapshotProfiles("c")->profiles.size(), kPuts * kThreadCount / 2);
}

TEST_P(StoreConformance, WhatAThreadStoredItFindsAtOnce) {
  std::atomic<int> missing_count = 0;
  OnThreads([&](int thread) {
    for (int i = 0; i < 15; ++i) {
      const PlanRecord plan = SamplePlan("c", absl::StrCat(thread, "-", i));
      if (!store().PutPlan(plan).ok()) ++missing_count;
      const auto found = store().FindPlanByKey("c", plan.plan_key, plan.job_id, SampleTime(0));
      if (!found.ok() || !found->has_value() || **found != plan) ++missing_count;
    }
  });
  EXPECT_EQ(missing_count, 0);
  EXPECT_THAT(store().CountPlans("c"), IsOkAndHolds(15 * kThreadCount));
}

TEST_P(StoreConformance, EqualRequestsAtOnceGiveOnePlan) {
  for (int round = 0; round < 10; ++round) {
    std::mutex mutex;
    std::set<std::string> names;
    OnThreads([&](int thread) {
      PlanRecord plan = SamplePlan("c", absl::StrCat(round, "-", thread));
      plan.request_id = absl::StrCat("round-", round);
      plan.plan_key = "key";
      const auto stored = store().PutPlan(plan);
      const std::lock_guard<std::mutex> lock(mutex);
      names.insert(stored.ok() ? stored->name : stored.status().ToString());
    });
    EXPECT_EQ(names.size(), 1);
    EXPECT_THAT(store().CountPlans("c"), IsOkAndHolds(round + 1));
  }
}

TEST_P(StoreConformance, OneOfManyThreadsClosesAnExecution) {
  ASSERT_OK(store().PutPlan(SamplePlan("c", "plan")));
  const std::string plan = SamplePlan("c", "plan").name;
  ASSERT_OK(store().CreateExecution(SampleExecution(plan, "e")));
  std::atomic<int> winner_count = 0;
  OnThreads([&](int thread) {
    const auto result = store().SetExecutionState(
        SampleExecution(plan, "e").name, ExecutionState::kRunning,
        thread % 2 == 0 ? ExecutionState::kSucceeded : ExecutionState::kFailed, SampleTime(thread),
        "");
    if (result.ok()) ++winner_count;
  });
  EXPECT_EQ(winner_count, 1);
}

TEST_P(StoreConformance, OverlappingReportsStoreEveryWindowOnce) {
  ASSERT_OK(store().PutPlan(SamplePlan("c", "plan")));
  const std::string plan = SamplePlan("c", "plan").name;
  const std::string execution = SampleExecution(plan, "e").name;
  ASSERT_OK(store().CreateExecution(SampleExecution(plan, "e")));
  std::atomic<int64_t> stored_count = 0;
  std::atomic<int64_t> duplicate_count = 0;
  OnThreads([&](int thread) {
    for (int i = 0; i < 10; ++i) {
      // Neighbours send half of each other's steps.
      const int64_t step = 5 * thread + i;
      const auto result =
          store().AppendWindows(execution, {SampleWindow(0, step)}, {1000}, SampleTime(30));
      if (!result.ok()) continue;
      stored_count += result->stored_count;
      duplicate_count += result->duplicate_count;
    }
  });
  EXPECT_EQ(stored_count, 5 * (kThreadCount - 1) + 10);
  EXPECT_EQ(stored_count + duplicate_count, 10 * kThreadCount);
  EXPECT_THAT(store().WindowCount(execution), IsOkAndHolds(stored_count.load()));
}

}  // namespace
}  // namespace parplan
