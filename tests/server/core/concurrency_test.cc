// Many threads at once; ThreadSanitizer is the judge of most of it.

#include <atomic>
#include <cstddef>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/wire/published_calibration.h"
#include "tests/server/core/core_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

class Concurrency : public CoreTest {};

TEST_F(Concurrency, CallersCancellersAndUploadersMeetAndEveryCallIsAnsweredOnce) {
  limits.max_queue_length = 1000;
  // Small, so that answers are also forgotten.
  limits.plan_cache_bytes = 100000;
  StartMeasured();
  constexpr int kThreads = 4;
  constexpr int kCalls = 24;
  std::atomic<int> answers = 0;
  std::atomic<int> plans = 0;
  std::atomic<int> unexpected = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kCalls; ++i) {
        v1::CreatePlanRequest request = Question();
        request.mutable_spec()->mutable_options()->set_planner(i % 3 == 0 ? "dp" : "tp");
        request.mutable_spec()->mutable_options()->set_allow_estimates(i % 5 == 0);
        request.set_job_id(i % 2 == 0 ? "even" : "odd");
        const std::shared_ptr<CallContext> context = Call();
        core().plans().SearchPlan(
            context, request, [](const v1::SearchProgress&) {},
            [&](const absl::StatusOr<SharedPlan>& plan) {
              ++answers;
              const absl::StatusCode code = plan.status().code();
              if (plan.ok()) ++plans;
              if (code != absl::StatusCode::kOk && code != absl::StatusCode::kCancelled &&
                  code != absl::StatusCode::kFailedPrecondition) {
                ++unexpected;
              }
            });
        if ((i + thread) % 4 == 0) context->Cancel();
        if (i % 8 == thread) {
          v1::Profile profile = SyntheticProfile({});
          profile.set_overlap_slowdown(1.0 + 0.01 * i);
          EXPECT_OK(Upload(profile, "upload-" + std::to_string(thread * 100 + i)).status());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  core().Drain(absl::InfiniteDuration());
  EXPECT_EQ(answers, kThreads * kCalls);
  EXPECT_EQ(unexpected, 0);
  EXPECT_GT(plans, 0);
}

TEST_F(Concurrency, EqualQuestionsOfManyThreadsAreOneStoredPlan) {
  StartMeasured();
  std::vector<std::thread> threads;
  std::vector<std::string> names(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this, &names, i] {
      const absl::StatusOr<SharedPlan> plan = Ask(Question());
      if (plan.ok()) names[i] = (*plan)->name();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& name : names) EXPECT_EQ(name, names[0]);
  EXPECT_FALSE(names[0].empty());
  EXPECT_EQ(planner.search_count, 1);
  EXPECT_EQ(*store().CountPlans("synthetic"), 1);
}

TEST_F(Concurrency, DrainEndsCallsThatAreStillComing) {
  limits.max_queue_length = 1000;
  StartMeasured();
  planner.is_open = false;
  std::atomic<bool> drained = false;
  std::atomic<int> asked = 0;
  std::atomic<int> answered = 0;
  std::thread caller([&] {
    for (int batch = 16; !drained; batch += 16) {
      v1::CreatePlanRequest request = Question();
      request.mutable_spec()->set_global_batch_size(batch);
      ++asked;
      core().plans().CreatePlan(Call(), request,
                                [&](const absl::StatusOr<SharedPlan>&) { ++answered; });
    }
  });
  observer.AwaitRunning(2);
  core().Drain(absl::ZeroDuration());
  drained = true;
  caller.join();
  EXPECT_EQ(answered, asked);
}

TEST_F(Concurrency, APlanIsNeverGivenUnderACalibrationItWasNotMadeFor) {
  // Small, so that plans also come from the store.
  limits.plan_cache_bytes = 20000;
  StartMeasured();
  std::vector<std::string> names = {""};
  std::vector<std::string> digests = {PublishedCalibration()->content().digest};
  for (const double efficiency : {0.5, 0.6}) {
    v1::UploadCalibrationRequest upload;
    upload.set_parent("clusters/synthetic");
    upload.set_request_id(std::to_string(efficiency));
    upload.mutable_calibration()->mutable_provenance()->set_agent("core_test");
    v1::CoefficientValue& value = *upload.mutable_calibration()->add_coefficient_values();
    value.set_coefficient("matrix_efficiency");
    value.set_value(efficiency);
    ASSERT_OK_AND_ASSIGN(const v1::Calibration stored, core().calibrations().Upload(upload));
    names.push_back(stored.name());
    digests.push_back(stored.digest());
  }
  const auto activate = [&](size_t which) {
    v1::ActivateCalibrationRequest request;
    request.set_parent("clusters/synthetic");
    request.set_calibration(names[which]);
    EXPECT_OK(core().calibrations().Activate(request));
  };
  // One thread changes what is active while others ask; then everything stands
  // still, and each question must find what holds, whatever was kept meanwhile.
  for (int round = 0; round < 12; ++round) {
    std::atomic<bool> done = false;
    std::vector<std::thread> askers;
    for (int thread = 0; thread < 3; ++thread) {
      askers.emplace_back([&, thread] {
        while (!done) {
          v1::CreatePlanRequest request = Question();
          request.set_job_id(std::to_string(thread % 2));
          EXPECT_OK(Ask(request));
        }
      });
    }
    for (int i = 0; i < 10; ++i) activate((round + i) % names.size());
    done = true;
    for (std::thread& asker : askers) asker.join();
    for (size_t which = 0; which < names.size(); ++which) {
      activate(which);
      for (const char* job : {"0", "1"}) {
        v1::CreatePlanRequest request = Question();
        request.set_job_id(job);
        ASSERT_OK_AND_ASSIGN(const SharedPlan plan, Ask(request));
        ASSERT_EQ(PayloadOf(*plan).calibration_digest(), digests[which]);
      }
    }
  }
}

}  // namespace
}  // namespace parplan
