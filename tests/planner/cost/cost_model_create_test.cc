#include "planner/cost/cost_model.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "planner/model/runtime_traits.h"
#include "tests/planner/cost/small_problem.h"
#include "tests/support/status_matchers.h"
#include "tests/support/valid.h"

namespace parplan {
namespace {

TEST(CostModelCreate, ListsEveryMeasurementThatIsMissing) {
  const PlanningProblem problem = SmallProblem([](ProfileSnapshot::Content& content) {
    content.collectives.clear();
    content.layers.pop_back();
    content.overlap_slowdown.reset();
    std::erase_if(content.layers[1].memories,
                  [](const LayerMemoryPoint& point) { return point.tensor_parallel_degree == 4; });
  });
  const absl::Status status = CostModel::Create(problem).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->reason, Reason::kProfileMissing);
  const std::string message(status.message());
  for (const char* expected :
       {"layer `head`: no timing", "layer `decoder`: memory at tensor_parallel_degree 4",
        "all-reduce on 4 ranks, stride 1", "send-receive on 2 ranks, stride 2",
        "overlap_slowdown"}) {
    EXPECT_NE(message.find(expected), std::string::npos) << expected << "\n" << message;
  }
}

TEST(CostModelCreate, SaysWhatItEstimated) {
  PlanningRules rules;
  rules.allow_estimates = true;
  const PlanningProblem problem = SmallProblem(
      [](ProfileSnapshot::Content& content) {
        for (LayerTimingPoint& point : content.layers[1].timings) point.backward.reset();
        content.context_memory.reset();
      },
      rules);
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  ASSERT_OK(costs.status());
  EXPECT_EQ(costs->confidence(), Confidence::kMixed);
  EXPECT_EQ(costs->estimated_items(),
            (std::vector<std::string>{"context_memory_bytes taken as 1 GiB",
                                      "layer `decoder`: backward time taken as twice the "
                                      "forward"}));
}

// A sample on each of four ranks: 16 bytes, 16 us of an all-reduce.
TEST(CostModelCreate, TakesHalfAnAllReduceForAChangeOfLayoutThatWasNotMeasured) {
  PlanningRules rules;
  rules.runtime = *FindRuntime("torch");
  const auto exchange = [&](const std::function<void(ProfileSnapshot::Content&)>& change) {
    const CostModel costs = Valid(CostModel::Create(SmallProblem(change, rules)));
    return costs.group(kFirstGroup)
        .ReshardingTimesOf(kDecoder, Degrees(1, 4), /*micro_batch_size=*/4)
        .exchange.value();
  };
  EXPECT_NEAR(exchange(nullptr), 8e-6, 1e-12);
  const auto add_measured = [](ProfileSnapshot::Content& content) {
    content.collectives.push_back({Collective::kAllToAll, 4, 1, Bytes::Of(1000),
                                   Seconds::Milliseconds(3), Origin::kMeasured});
  };
  EXPECT_NEAR(exchange(add_measured), 48e-6, 1e-12);
}

TEST(CostModelCreate, NeverExtendsActivationsBelowAPerfectSplit) {
  PlanningRules rules;
  rules.allow_estimates = true;
  const PlanningProblem problem = SmallProblem(
      [](ProfileSnapshot::Content& content) {
        // 1000, 100 bytes at degrees 1 and 2: a line through them is below zero at 4.
        content.layers[1].memories.pop_back();
        content.layers[1].memories[0].activation_per_sample = Bytes::Of(1000);
        content.layers[1].memories[1].activation_per_sample = Bytes::Of(100);
      },
      rules);
  const CostModel costs = *CostModel::Create(problem);
  EXPECT_GE(
      costs.group(kFirstGroup).CostOfLayer(kDecoder, Degrees(4, 1), 1, 1).kept_per_micro_batch(),
      Bytes::Of(50));
}

TEST(CostModelCreate, RefusesSizesWhoseSumsWouldOverflow) {
  for (const int64_t size : {int64_t{1} << 58, int64_t{1} << 60, (int64_t{1} << 62) + 1}) {
    const PlanningProblem problem = SmallProblem([size](ProfileSnapshot::Content& content) {
      for (LayerMemoryPoint& point : content.layers[1].memories) {
        point.activation_per_sample = Bytes::Of(size);
      }
    });
    const absl::Status status = CostModel::Create(problem).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    ASSERT_TRUE(GetErrorDetail(status).has_value());
    EXPECT_EQ(GetErrorDetail(status)->metadata.at("field"), "global_batch_size");
  }
}

// A context that was measured without them includes communicators, as those of older profiles do.
TEST(CostModelCreate, CommunicatorsTakeWhatWasMeasuredBesideTheContext) {
  const auto overheads = [](std::optional<Bytes> communicator) {
    const CostModel costs = Valid(CostModel::Create(SmallProblem(
        [&](ProfileSnapshot::Content& content) { content.communicator_memory = communicator; })));
    return costs.group(kFirstGroup).overheads();
  };
  EXPECT_EQ(overheads(std::nullopt).context, Bytes::Of(5000));
  EXPECT_EQ(overheads(std::nullopt).communicator, Bytes());
  EXPECT_EQ(overheads(Bytes::Of(700)).context, Bytes::Of(5000));
  EXPECT_EQ(overheads(Bytes::Of(700)).communicator, Bytes::Of(700));
}

TEST(CostModelCreate, IsMeasuredWhenEverythingWas) {
  EXPECT_EQ(SmallCosts().confidence(), Confidence::kMeasured);
  EXPECT_TRUE(SmallCosts().estimated_items().empty());
}

}  // namespace
}  // namespace parplan
