// Tests where gradients of bf16 lie in their arrays, on one rank of two of the emulated device:
// ranks in fp32 have one type for parameters and gradients, and would not see one taken for the
// other.

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "executor/device/comm/null_communicator.h"
#include "executor/device/kernels/array_pool.h"
#include "executor/trainer/layer_state.h"
#include "executor/trainer/parameter_layout.h"
#include "tests/executor/device/cuda/emulated_subject.h"
#include "tests/planner/program/program_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

constexpr int kRank = 1;
constexpr int kRankCount = 2;

// A group whose other rank has zeros.
class RecordedGroup : public NullCommunicator {
 public:
  RecordedGroup() : NullCommunicator("shards", kRank, kRankCount) {}
  absl::StatusOr<std::unique_ptr<PendingWork>> Start(const CollectiveCall& call) override {
    calls.push_back(call);
    return NullCommunicator::Start(call);
  }
  std::vector<CollectiveCall> calls;
};

// Returns the gradient of parameter `i`, which bf16 does not have.
float GradientOf(int64_t i, int micro_batch) {
  return static_cast<float>(i % 1000) + 0.25f * static_cast<float>(micro_batch + 1);
}

class EmulatedShards : public testing::TestWithParam<std::pair<ShardingLevel, bool>> {};

TEST_P(EmulatedShards, EachParameterGetsItsSumIn32Bits) {
  const auto [level, communicates_ahead] = GetParam();
  constexpr int kMicroBatchCount = 3;
  const std::unique_ptr<KernelSubject> subject =
      MakeEmulatedKernels(ElementType::kBfloat16, /*reverses=*/false);
  ArrayPool pool(subject->memory());
  const ModelSpec model = SmallGpt(1);
  const LayerDefinition& layer = model.layer(1);
  Strategy strategy;
  strategy.data_parallel_degree = kRankCount;
  strategy.sharding_level = level;
  const LayerTools tools(
      {.kernels = &subject->kernels(),
       .pool = &pool,
       .definition = &layer,
       .strategy = strategy,
       .layout = ActivationLayout(/*first_rank=*/0, strategy, kRankCount, layer.sequence_length),
       .rank = kRank,
       .communicates_ahead = communicates_ahead});
  const ParameterLayout layout =
      LayoutOfParameters(layer, /*tensor_parallel_degree=*/1, /*tensor_rank=*/0);
  RecordedGroup group;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<LayerState> state,
                       LayerState::Create(tools, layout, &group, /*layer_index=*/1, /*seed=*/3,
                                          SgdSettings{.learning_rate = 1.0, .momentum = 0.0}));
  const auto masters = [&] {
    const absl::StatusOr<std::vector<StatePart>> parts = state->Parts();
    EXPECT_OK(parts.status());
    EXPECT_EQ(parts->size(), 2U);
    return (*parts)[1];
  };
  const StatePart part = masters();
  ASSERT_EQ(part.kind, StateKind::kMasters);
  const auto* const values = static_cast<const float*>(part.data);
  const std::vector<float> before(values, values + part.count);

  for (int micro_batch = 0; micro_batch < kMicroBatchCount; ++micro_batch) {
    ASSERT_OK_AND_ASSIGN(void* const gradients, state->Gradients());
    for (int64_t i = 0; i < layout.size; ++i) {
      static_cast<float*>(gradients)[i] += GradientOf(i, micro_batch);
    }
    ASSERT_OK(state->EndBackward());
  }
  ASSERT_OK(state->StartSynchronize());
  ASSERT_OK(state->Synchronize());
  ASSERT_OK(state->Step(1));
  ASSERT_EQ(masters().data, part.data);
  for (int64_t i = 0; i < part.count; ++i) {
    float sum = 0.0f;
    for (int k = 0; k < kMicroBatchCount; ++k) sum += GradientOf(part.first + i, k);
    ASSERT_EQ(values[i], before[static_cast<size_t>(i)] - sum) << part.first + i;
  }
  // The next step begins with zeros.
  ASSERT_OK_AND_ASSIGN(void* const gradients, state->Gradients());
  for (int64_t i = 0; i < layout.size; ++i) ASSERT_EQ(static_cast<float*>(gradients)[i], 0.0f);

  int reduction_count = 0;
  for (const CollectiveCall& call : group.calls) {
    const bool is_gather = call.operation == Operation::kAllGather;
    EXPECT_EQ(call.type, is_gather ? ElementType::kBfloat16 : ElementType::kFloat32);
    if (is_gather) continue;
    ++reduction_count;
    const int64_t offset = level == ShardingLevel::kNone ? 0 : kRank * call.count * 4;
    EXPECT_EQ(call.receive, static_cast<const char*>(call.send) + offset);
  }
  EXPECT_EQ(reduction_count, level >= ShardingLevel::kGradients ? kMicroBatchCount : 1);
}

INSTANTIATE_TEST_SUITE_P(Levels, EmulatedShards,
                         testing::Values(std::pair(ShardingLevel::kNone, false),
                                         std::pair(ShardingLevel::kNone, true),
                                         std::pair(ShardingLevel::kOptimizer, false),
                                         std::pair(ShardingLevel::kOptimizer, true),
                                         std::pair(ShardingLevel::kGradients, false),
                                         std::pair(ShardingLevel::kGradients, true),
                                         std::pair(ShardingLevel::kParameters, false),
                                         std::pair(ShardingLevel::kParameters, true)));

}  // namespace
}  // namespace parplan
