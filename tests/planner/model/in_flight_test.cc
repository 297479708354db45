#include "planner/model/in_flight.h"

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "planner/cost/pipeline_schedule.h"
#include "planner/model/plan.h"
#include "tests/support/group_size_dice.h"

namespace parplan {
namespace {

// The most that a device keeps, counted pass by pass, and the most that it needs, with the extra
// memory of a chunk during its backward passes.
struct Counted {
  Bytes peak;
  Bytes needed = Bytes::Of(std::numeric_limits<int64_t>::min());
};
Counted CountedPeak(const InterleavedDevice& device, const std::vector<Bytes>& kept,
                    const std::vector<Bytes>& extra, std::vector<int64_t>& most_of_chunk) {
  const int depth = device.pipeline_parallel_degree;
  const std::vector<StageTimes> stages(
      static_cast<size_t>(depth * device.virtual_stage_count),
      {Seconds::Of(1), Seconds::Of(2), Seconds::Of(0.25), Seconds()});
  std::vector<PipelineEvent> events =
      PipelineEvents({.schedule = Schedule::kInterleaved,
                      .virtual_stage_count = device.virtual_stage_count,
                      .micro_batch_group_size = device.micro_batch_group_size},
                     stages, device.micro_batch_count);
  std::erase_if(events, [&](const PipelineEvent& event) {
    return event.stage_index % depth != device.device_index;
  });
  std::stable_sort(
      events.begin(), events.end(),
      [](const PipelineEvent& a, const PipelineEvent& b) { return a.start < b.start; });
  std::vector<int64_t> in_flight(static_cast<size_t>(device.virtual_stage_count));
  most_of_chunk = in_flight;
  Counted counted;
  const auto sum_of = [&kept, &in_flight] {
    Bytes sum;
    for (size_t c = 0; c < in_flight.size(); ++c) sum += kept[c] * in_flight[c];
    return sum;
  };
  for (const PipelineEvent& event : events) {
    const size_t chunk = static_cast<size_t>(event.stage_index / depth);
    if (event.is_backward) counted.needed = std::max(counted.needed, sum_of() + extra[chunk]);
    in_flight[chunk] += event.is_backward ? -1 : 1;
    most_of_chunk[chunk] = std::max(most_of_chunk[chunk], in_flight[chunk]);
    counted.peak = std::max(counted.peak, sum_of());
  }
  return counted;
}

TEST(WorstMoment, IsWhatTheOrderOfPassesNeeds) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 3000; ++trial) {
    InterleavedDevice device;
    device.pipeline_parallel_degree = 1 + static_cast<int>(random() % 8);
    device.virtual_stage_count = 1 + static_cast<int>(random() % 5);
    device.device_index =
        static_cast<int>(random() % static_cast<uint64_t>(device.pipeline_parallel_degree));
    device.micro_batch_count = 1 + static_cast<int64_t>(random() % 40);
    device.micro_batch_group_size =
        DrawGroupSize(device.pipeline_parallel_degree, device.virtual_stage_count,
                      device.micro_batch_count, random);
    std::vector<Bytes> kept;
    std::vector<Bytes> extra;
    for (int chunk = 0; chunk < device.virtual_stage_count; ++chunk) {
      kept.push_back(Bytes::Of(static_cast<int64_t>(random() % 9)));
      extra.push_back(Bytes::Of(static_cast<int64_t>(random() % 60) - 10));
    }
    const std::string where =
        absl::StrCat("device ", device.device_index, " of ", device.pipeline_parallel_degree, ", ",
                     device.virtual_stage_count, " chunks, ", device.micro_batch_count,
                     " micro-batches in groups of ", device.micro_batch_group_size);
    std::vector<int64_t> counts(kept.size());
    std::vector<int64_t> most;
    const Counted counted = CountedPeak(device, kept, extra, most);
    ASSERT_EQ(InFlightPeak(device, kept, absl::MakeSpan(counts)), counted.peak) << where;
    const auto sum_of = [&] {
      Bytes sum;
      for (size_t c = 0; c < kept.size(); ++c) {
        sum += kept[c] * counts[c];
        EXPECT_LE(counts[c], most[c]) << where;
      }
      return sum;
    };
    EXPECT_EQ(sum_of(), counted.peak) << where;

    const InFlightMoment worst = WorstMoment(device, kept, extra, absl::MakeSpan(counts));
    EXPECT_EQ(worst.needed, counted.needed) << where;
    EXPECT_EQ(worst.most_kept, counted.peak) << where;
    EXPECT_EQ(worst.kept, sum_of()) << where;
    EXPECT_EQ(worst.needed, worst.kept + extra[static_cast<size_t>(worst.chunk_index)]) << where;
  }
}

TEST(InFlightPeak, OfEqualChunksIsThePublishedFactor) {
  for (int depth : {2, 4, 8, 16}) {
    for (int chunks : {2, 3, 6}) {
      const std::vector<Bytes> kept(static_cast<size_t>(chunks), Bytes::Of(1));
      // P V (1 + (P - 1) / (P V)) chunks of a micro-batch.
      EXPECT_EQ(InFlightPeak({depth, chunks, 0, 8 * depth}, kept, {}),
                Bytes::Of(depth * chunks + depth - 1));
      EXPECT_EQ(InFlightPeak({depth, chunks, depth - 1, 8 * depth}, kept, {}),
                Bytes::Of((chunks - 1) * depth + 1));
    }
  }
}

// Device 3 of 4 with 2 chunks, 18 micro-batches in groups of 10: it begins the last group with a
// backward pass when all 8 are through the first chunk and, of the second one, 3 are.
TEST(InFlightPeak, OfALastGroupThatIsSmallerComesWithThatGroup) {
  std::vector<int64_t> counts(2);
  EXPECT_EQ(InFlightPeak({4, 2, 3, 18, 10}, {Bytes::Of(1), Bytes::Of(100)}, absl::MakeSpan(counts)),
            Bytes::Of(308));
  EXPECT_EQ(counts, (std::vector<int64_t>{8, 3}));
}

TEST(InFlightPeak, OfOneChunkIsThatOfPlainOneForwardOneBackward) {
  for (int device = 0; device < 4; ++device) {
    for (int64_t m : {1, 3, 16}) {
      std::vector<int64_t> counts(1);
      InFlightPeak({4, 1, device, m}, {Bytes::Of(1)}, absl::MakeSpan(counts));
      EXPECT_EQ(counts[0], InFlightMicroBatchCount(Schedule::kOneForwardOneBackward, 4, device, m));
    }
  }
}

TEST(InFlightPeak, OfAHeavyFirstChunkComesLaterThanTheFirstBackwardPass) {
  // Device 0 of 4 with 2 chunks runs F0 x4, F1 x4, F0 x4 while the backward passes
  // are still of chunk 1.
  std::vector<int64_t> counts(2);
  EXPECT_EQ(InFlightPeak({4, 2, 0, 16}, {Bytes::Of(10), Bytes::Of(1)}, absl::MakeSpan(counts)),
            Bytes::Of(83));
  EXPECT_EQ(counts, (std::vector<int64_t>{8, 3}));
}

}  // namespace
}  // namespace parplan
