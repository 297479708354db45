#include "executor/layer_probe/layer_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include "executor/device/comm/job_fabric.h"
#include "tests/executor/device/comm/rank_threads.h"
#include "tests/executor/layer_probe/counted_kernels.h"
#include "tests/planner/program/program_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;

// Runs a probe on all ranks and returns their results, by a simulated clock or by the real one.
std::vector<absl::StatusOr<std::vector<LayerTimes>>> Probe(
    const ModelSpec& model, const LayerProbeShape& shape, int world_size, bool counts_work,
    absl::Duration time_limit = absl::Minutes(5)) {
  std::vector<absl::StatusOr<std::vector<LayerTimes>>> results(world_size);
  RunRanks(world_size, {.spin_count = 50}, [&](JobFabric& fabric) {
    std::vector<int> all(world_size);
    std::iota(all.begin(), all.end(), 0);
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Communicator> control,
                         fabric.MakeGroup("control", all));
    CountedKernels kernels(MakeCpuKernels(ElementType::kFloat32));
    const std::unique_ptr<DeviceMemory> memory = MakeHostMemory();
    LayerProbeSetting setting{.rank = fabric.rank(),
                              .world_size = world_size,
                              .kernels = &kernels,
                              .memory = memory.get(),
                              .make_group =
                                  [&](const std::string& purpose, const std::vector<int>& ranks) {
                                    return fabric.MakeGroup(purpose, ranks);
                                  },
                              .control = control.get(),
                              .warm_up_count = 1,
                              .max_repetition_count = 12,
                              .time_limit = time_limit};
    if (counts_work) setting.now = [&kernels] { return kernels.now(); };
    results[fabric.rank()] = ProbeLayers(model, shape, setting);
  });
  return results;
}

// Operations of the products of one of `SmallGpt`'s decoders, of 24 tokens a sample.
int64_t ForwardOperations(int64_t samples) {
  const int64_t hidden = 48;
  const int64_t inner = 192;
  return 2 * samples * 24 * (hidden * 3 * hidden + hidden * hidden + 2 * hidden * inner);
}

TEST(ProbeLayers, TakesTheTimeOfOneLayerAndMicroBatch) {
  for (const bool shares_tokens : {false, true}) {
    for (const int tensor : {1, 2}) {
      const LayerProbeShape shape{
          .tensor_parallel_degree = tensor, .sequence_parallel = shares_tokens, .samples = 3};
      for (const auto& times : Probe(SmallGpt(6), shape, 2, /*counts_work=*/true)) {
        ASSERT_OK(times);
        ASSERT_EQ(times->size(), 3u);
        const LayerTimes& decoder = (*times)[1];
        const absl::Duration forward = absl::Nanoseconds(ForwardOperations(3) / tensor);
        EXPECT_EQ(decoder.definition_index, 1);
        EXPECT_EQ(decoder.sequence_length, 24);
        EXPECT_EQ(decoder.forward.median, forward);
        EXPECT_EQ(decoder.backward.median, 2 * forward);
        EXPECT_EQ(decoder.optimizer_step.median, absl::Nanoseconds(decoder.parameter_count));
        // Nothing is uncertain, so there is no need for more.
        EXPECT_EQ(decoder.forward.sample_count, LayerProbeSetting().min_repetition_count);
        // Tables of 96 rows; looking something up takes no product.
        const LayerTimes& embedding = (*times)[0];
        EXPECT_EQ(embedding.forward.median, absl::ZeroDuration());
        EXPECT_EQ(embedding.parameter_count, 96 * 48 / tensor);
        EXPECT_EQ(embedding.optimizer_step.median, absl::Nanoseconds(96 * 48 / tensor));
        const LayerTimes& head = (*times)[2];
        const absl::Duration logits = absl::Nanoseconds(2 * 3 * 24 * 48 * 96 / tensor);
        // A head makes logits in its backward pass.
        EXPECT_EQ(head.forward.median, absl::ZeroDuration());
        EXPECT_EQ(head.backward.median, 3 * logits);
      }
    }
  }
}

TEST(ProbeLayers, MakesDoWithThreeRepetitionsWhenTheTimeIsOver) {
  for (const auto& times :
       Probe(SmallGpt(2), {.samples = 1}, 2, /*counts_work=*/true, absl::Nanoseconds(1))) {
    ASSERT_OK(times);
    EXPECT_EQ((*times)[1].forward.sample_count, 3);
    EXPECT_EQ((*times)[1].forward.median, absl::Nanoseconds(ForwardOperations(1)));
  }
}

TEST(ProbeLayers, MeasuresOtherLengthsThanTheModels) {
  const LayerProbeShape shape{.samples = 1, .sequence_length = 48};
  for (const auto& times : Probe(SmallGpt(2), shape, 1, /*counts_work=*/true)) {
    ASSERT_OK(times);
    EXPECT_EQ((*times)[1].sequence_length, 48);
    EXPECT_EQ((*times)[1].forward.median, absl::Nanoseconds(ForwardOperations(2)));
  }
}

// A row for each of 24 tokens. Samples of 48 tokens have 48 rows, and shorter ones those 24.
TEST(ProbeLayers, KeepsLearnedPositionsAtOtherLengths) {
  const ModelSpec gpt = SmallGpt(2);
  std::vector<LayerDefinition> definitions = gpt.layer_definitions();
  definitions.front().parameter_count += 24 * 48;
  ASSERT_OK_AND_ASSIGN(const ModelSpec model,
                       ModelSpec::Create(gpt.model_id(), std::move(definitions), gpt.layer_runs(),
                                         gpt.precision(), gpt.optimizer()));
  for (const auto& [length, rows] : {std::pair(0, 24), std::pair(12, 24), std::pair(48, 48)}) {
    const LayerProbeShape shape{.samples = 1, .sequence_length = length};
    for (const auto& times : Probe(model, shape, 1, /*counts_work=*/true)) {
      ASSERT_OK(times);
      EXPECT_EQ(times->front().parameter_count, (96 + rows) * 48) << length;
    }
  }
}

TEST(ProbeLayers, AllRanksGetTheSameRealTimes) {
  const auto results = Probe(SmallLlama(2), {.tensor_parallel_degree = 2, .samples = 2}, 2,
                             /*counts_work=*/false);
  for (const auto& times : results) {
    ASSERT_OK(times);
    for (size_t layer = 0; layer < times->size(); ++layer) {
      EXPECT_EQ((*times)[layer].forward.median, (*results[0])[layer].forward.median);
      EXPECT_EQ((*times)[layer].backward.p90, (*results[0])[layer].backward.p90);
    }
    EXPECT_GT((*times)[2].forward.median, absl::ZeroDuration());
    EXPECT_GE((*times)[1].forward.sample_count, LayerProbeSetting().min_repetition_count);
  }
}

TEST(ProbeLayers, RefusesWhatCannotRun) {
  for (const auto& times : Probe(SmallGpt(2), {.tensor_parallel_degree = 3}, 2, true)) {
    EXPECT_THAT(times,
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("tensor_parallel_degree")));
  }
  // 12 heads.
  for (const auto& times : Probe(SmallGpt(2), {.tensor_parallel_degree = 5}, 5, true)) {
    EXPECT_THAT(times, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("heads")));
  }
  for (const auto& times : Probe(SmallGpt(2), {.samples = 0}, 1, true)) {
    EXPECT_THAT(times, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("samples")));
  }
}

}  // namespace
}  // namespace parplan
