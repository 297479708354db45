#include "profiler-agent/drift/find_drift.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/time/time.h"
#include "proto/wire/duration_wire.h"

namespace parplan {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

v1::CollectiveTiming Timing(int64_t bytes, double microseconds, int count = 100, int stride = 1) {
  v1::CollectiveTiming timing;
  timing.set_collective(v1::COLLECTIVE_ALL_REDUCE);
  timing.set_participant_count(4);
  timing.set_rank_stride(stride);
  timing.set_message_size_bytes(bytes);
  *timing.mutable_median_duration() = DurationToProto(absl::Microseconds(microseconds));
  timing.set_sample_count(count);
  return timing;
}

// 1 KiB takes 100 us, 4 KiB 400 us, 90 % up to a fifth more.
v1::Profile Stored() {
  v1::Profile profile;
  for (const int64_t bytes : {1024, 4096}) {
    const double microseconds = 100.0 * static_cast<double>(bytes) / 1024.0;
    v1::CollectiveTiming& timing = *profile.add_collective_timings();
    timing = Timing(bytes, microseconds);
    *timing.mutable_p90_duration() = DurationToProto(absl::Microseconds(1.2 * microseconds));
  }
  return profile;
}

double RatioOf(const std::vector<v1::CollectiveTiming>& passive) {
  const std::vector<Drift> drifts = FindDrift(Stored(), passive);
  return drifts.empty() ? 1.0 : drifts[0].ratio;
}

TEST(FindDrift, AllowsTheStoredRangeAndATenthMore) {
  EXPECT_EQ(RatioOf({Timing(1024, 100)}), 1.0);
  // 1.2 and a tenth is 1.32.
  EXPECT_EQ(RatioOf({Timing(1024, 131)}), 1.0);
  EXPECT_NEAR(RatioOf({Timing(1024, 133)}), 1.33, 1e-9);
  EXPECT_EQ(RatioOf({Timing(1024, 76)}), 1.0);
  EXPECT_NEAR(RatioOf({Timing(1024, 75)}), 0.75, 1e-9);
}

TEST(FindDrift, SaysWhichShape) {
  const std::vector<Drift> drifts = FindDrift(Stored(), {Timing(1024, 150), Timing(4096, 1200)});
  ASSERT_THAT(drifts, SizeIs(1));
  EXPECT_EQ(drifts[0].collective, v1::COLLECTIVE_ALL_REDUCE);
  EXPECT_EQ(drifts[0].participant_count, 4);
  EXPECT_EQ(drifts[0].rank_stride, 1);
  EXPECT_NEAR(drifts[0].ratio, 3.0, 1e-9);
}

TEST(FindDrift, ComparesSizesBetweenThoseMeasured) {
  EXPECT_EQ(RatioOf({Timing(2048, 200)}), 1.0);
  EXPECT_NEAR(RatioOf({Timing(2048, 400)}), 2.0, 1e-9);
  // A little beyond the ends,
  EXPECT_NEAR(RatioOf({Timing(8192, 1600)}), 2.0, 1e-9);
  EXPECT_NEAR(RatioOf({Timing(512, 200)}), 2.0, 1e-9);
  // but not far.
  EXPECT_EQ(RatioOf({Timing(8196, 1e6)}), 1.0);
  EXPECT_EQ(RatioOf({Timing(508, 1e6)}), 1.0);
}

TEST(FindDrift, TakesWaitingForNoDrift) {
  // Ranks that come late make most operations long; a fifth shows what the links do.
  EXPECT_EQ(RatioOf({Timing(1024, 1000, 80), Timing(1024, 100, 20)}), 1.0);
  EXPECT_NEAR(RatioOf({Timing(1024, 1000, 95), Timing(1024, 100, 5)}), 10.0, 1e-9);
  // No waiting makes them short.
  EXPECT_NEAR(RatioOf({Timing(1024, 50, 60), Timing(1024, 100, 40)}), 0.5, 1e-9);
  EXPECT_EQ(RatioOf({Timing(1024, 50, 40), Timing(1024, 100, 60)}), 1.0);
}

TEST(FindDrift, WantsEnoughOperations) {
  EXPECT_EQ(RatioOf({Timing(1024, 1000, 19)}), 1.0);
  EXPECT_NE(RatioOf({Timing(1024, 1000, 10), Timing(1024, 1000, 10)}), 1.0);
}

TEST(FindDrift, IsSilentOnWhatWasNeverMeasured) {
  EXPECT_THAT(FindDrift(Stored(), {Timing(1024, 1000, 100, 2)}), IsEmpty());
  EXPECT_THAT(FindDrift(v1::Profile(), {Timing(1024, 1000)}), IsEmpty());
  EXPECT_THAT(FindDrift(Stored(), {}), IsEmpty());
}

TEST(LargestDriftRatio, IsAboveOneEitherWay) {
  EXPECT_EQ(LargestDriftRatio(Stored(), {}), 1.0);
  EXPECT_NEAR(LargestDriftRatio(Stored(), {Timing(1024, 110), Timing(4096, 200)}), 2.0, 1e-9);
}

}  // namespace
}  // namespace parplan
