#include "profiler-agent/probe/collective_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/executor/device/comm/rank_threads.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Collective kAll[] = {Collective::kAllReduce,     Collective::kAllGather,
                               Collective::kReduceScatter, Collective::kAllToAll,
                               Collective::kSendReceive,   Collective::kBroadcast};

TEST(GroupOf, LiesSideBySide) {
  EXPECT_THAT(GroupOf(2, 1, 5), ElementsAre(4, 5));
  EXPECT_THAT(GroupOf(2, 4, 5), ElementsAre(1, 5));
  EXPECT_THAT(GroupOf(3, 2, 3), ElementsAre(1, 3, 5));
  for (const int rank_count : {2, 4, 6, 8, 12}) {
    for (int participants = 2; participants <= rank_count; ++participants) {
      for (int stride = 1; stride <= rank_count; ++stride) {
        if (!ShapeCovers(participants, stride, rank_count)) continue;
        for (int rank = 0; rank < rank_count; ++rank) {
          const std::vector<int> group = GroupOf(participants, stride, rank);
          EXPECT_TRUE(std::set<int>(group.begin(), group.end()).contains(rank));
          EXPECT_LT(group.back(), rank_count);
          for (const int other : group) EXPECT_EQ(GroupOf(participants, stride, other), group);
        }
      }
    }
  }
  EXPECT_FALSE(ShapeCovers(4, 1, 6));
  EXPECT_FALSE(ShapeCovers(2, 4, 4));
}

CollectiveProbeOptions FewSamples() {
  CollectiveProbeOptions options;
  options.warm_up_count = 1;
  options.max_sample_count = 10;
  options.time_limit = absl::Minutes(5);
  options.sample_time = absl::Microseconds(1);
  return options;
}

// Runs `work` on each of `rank_count` ranks and returns the results.
template <typename Work>
std::vector<std::string> OnRanks(int rank_count, const Work& work) {
  std::vector<std::string> answers(rank_count);
  RunRanks(rank_count, {.spin_count = 50}, [&](JobFabric& fabric) {
    std::vector<int> all(rank_count);
    std::iota(all.begin(), all.end(), 0);
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Communicator> control,
                         fabric.MakeGroup("control", all));
    const std::unique_ptr<DeviceBackend> backend = MakeCpuBackend();
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Device> device, backend->Open(0));
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<LayerKernels> kernels,
                         device->MakeKernels(ElementType::kFloat32));
    CollectiveProbe probe(fabric, *device, *kernels, *control, FewSamples());
    answers[fabric.rank()] = work(probe);
  });
  return answers;
}

TEST(CollectiveProbe, TimesEveryCollectiveOfEveryShape) {
  const std::vector<std::string> answers = OnRanks(4, [](CollectiveProbe& probe) {
    std::string answer;
    for (const auto& [participants, stride] : {std::pair(2, 1), {2, 2}, {4, 1}}) {
      for (const Collective collective : kAll) {
        if (collective == Collective::kSendReceive && participants != 2) continue;
        for (const int64_t bytes : {16, 4096, 1 << 20}) {
          const absl::StatusOr<TimeSpread> spread =
              probe.Measure({collective, participants, stride, bytes});
          EXPECT_OK(spread);
          if (!spread.ok()) return answer;
          EXPECT_GT(spread->median, absl::ZeroDuration());
          EXPECT_GE(spread->p90, spread->median);
          EXPECT_LE(spread->p10, spread->median);
          EXPECT_GE(spread->sample_count, 3);
          absl::StrAppend(&answer, absl::FormatDuration(spread->median), " ");
        }
      }
    }
    return answer;
  });
  // All ranks have the slowest one's times.
  EXPECT_FALSE(answers[0].empty());
  for (const std::string& answer : answers) EXPECT_EQ(answer, answers[0]);
}

TEST(CollectiveProbe, RefusesWhatItCannotMeasure) {
  OnRanks(2, [](CollectiveProbe& probe) {
    EXPECT_THAT(
        probe.Measure({Collective::kAllReduce, 3, 1, 4096}),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("do not cover all 2 ranks")));
    EXPECT_THAT(probe.Measure({Collective::kAllGather, 2, 1, 4}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("message_size_bytes")));
    EXPECT_THAT(probe.Measure({Collective::kAllReduce, 2, 1, 0}),
                StatusIs(absl::StatusCode::kInvalidArgument));
    return "";
  });
}

}  // namespace
}  // namespace parplan
