#include "profiler-agent/passive/passive_recorder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace parplan {
namespace {

using std::chrono::milliseconds;

void ExpectSampling(int elapsed, bool is_on, int remaining) {
  const PassiveSampling sampling =
      SamplingAt(milliseconds(elapsed), milliseconds(1000), milliseconds(10000));
  EXPECT_EQ(sampling.is_on, is_on) << elapsed;
  EXPECT_EQ(sampling.remaining, milliseconds(remaining)) << elapsed;
}

TEST(SamplingAt, RecordsTheFirstSecondOfTen) {
  ExpectSampling(0, true, 1000);
  ExpectSampling(999, true, 1);
  ExpectSampling(1000, false, 9000);
  ExpectSampling(9999, false, 1);
  ExpectSampling(10000, true, 1000);
  ExpectSampling(71234, false, 8766);
}

TEST(SamplingAt, RecordsAlwaysIfTheWholePeriodIsRecorded) {
  for (const int elapsed : {0, 5, 10, 17}) {
    const PassiveSampling sampling =
        SamplingAt(milliseconds(elapsed), milliseconds(10), milliseconds(10));
    EXPECT_TRUE(sampling.is_on);
    EXPECT_GT(sampling.remaining, milliseconds(0));
  }
}

TEST(PassiveRecorder, SwitchesRecordingOffAndOnInTurn) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> switched;
  {
    const PassiveRecorder recorder({.folder = testing::TempDir() + "/nowhere",
                                    .prefix = "none",
                                    .recorded = milliseconds(1),
                                    .period = milliseconds(2),
                                    .switch_recording = [&](bool is_on) {
                                      const std::lock_guard<std::mutex> lock(mutex);
                                      switched.push_back(is_on);
                                      changed.notify_all();
                                    }});
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return switched.size() >= 4; });
  }
  for (size_t i = 0; i < switched.size(); ++i) EXPECT_EQ(switched[i], i % 2 == 1);
}

}  // namespace
}  // namespace parplan
