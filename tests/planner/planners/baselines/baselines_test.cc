#include "planner/planners/baselines/baselines.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/support/synthetic_problem.h"

namespace parplan {
namespace {

using Sharding = SearchSpace::Sharding;

TEST(SpaceOfBaseline, HasTheDegreesOfItsName) {
  const PlanningProblem problem = SyntheticProblem({.device_count = 8, .decoder_count = 30});
  struct Degrees {
    const char* name;
    std::optional<int> pipeline;
    std::optional<int> tensor;
    Sharding sharding;
  };
  for (const Degrees& expected :
       {Degrees{"dp", 1, 1, Sharding::kNever}, Degrees{"sdp", 1, 1, Sharding::kAlways},
        Degrees{"tp", 1, 8, Sharding::kNever}, Degrees{"pp", 8, std::nullopt, Sharding::kNever},
        Degrees{"dp+tp", 1, std::nullopt, Sharding::kNever},
        Degrees{"dp+pp", std::nullopt, 1, Sharding::kNever},
        Degrees{"deepspeed-3d", 2, 2, Sharding::kNever}}) {
    SCOPED_TRACE(expected.name);
    const std::optional<SearchSpace> space = SpaceOfBaseline(expected.name, problem);
    ASSERT_TRUE(space.has_value());
    EXPECT_EQ(space->pipeline_parallel_degree, expected.pipeline);
    EXPECT_EQ(space->tensor_parallel_degree, expected.tensor);
    EXPECT_EQ(space->sharding, expected.sharding);
    EXPECT_FALSE(space->recompute);
  }
}

TEST(SpaceOfBaseline, KnowsNoOtherName) {
  for (const char* const name : {"", "exact", "megatron", "fsdp-best", "DP"}) {
    EXPECT_FALSE(SpaceOfBaseline(name, SyntheticProblem()).has_value()) << name;
  }
}

TEST(FsdpGrid, ShardsWheneverThereIsDataParallelism) {
  const UniformGrid grid = FsdpGrid();
  EXPECT_FALSE(grid.dimensions.has(SearchDimension::kPipeline));
  EXPECT_FALSE(grid.dimensions.has(SearchDimension::kTensor));
  EXPECT_FALSE(grid.allows({.data_parallel_degree = 8}));
  EXPECT_FALSE(
      grid.allows({.data_parallel_degree = 8, .sharding_level = ShardingLevel::kOptimizer}));
  EXPECT_TRUE(
      grid.allows({.data_parallel_degree = 8, .sharding_level = ShardingLevel::kGradients}));
  EXPECT_TRUE(
      grid.allows({.data_parallel_degree = 8, .sharding_level = ShardingLevel::kParameters}));
  EXPECT_TRUE(grid.allows({.data_parallel_degree = 1}));
}

TEST(MegatronGrid, HasTensorAndPipelineDegreesAndShardsNoParameters) {
  const UniformGrid grid = MegatronGrid();
  EXPECT_TRUE(grid.dimensions.has(SearchDimension::kTensor));
  EXPECT_TRUE(grid.dimensions.has(SearchDimension::kPipeline));
  EXPECT_FALSE(grid.dimensions.has(SearchDimension::kParameterSharding));
  EXPECT_TRUE(grid.allows({.tensor_parallel_degree = 4, .data_parallel_degree = 2}));
}

TEST(EqualDegrees, AreDealtInTurn) {
  const auto degrees = [](int device_count, int heads = 16) {
    return EqualDegrees(SyntheticProblem({.device_count = device_count,
                                          .decoder_count = 30,
                                          .hidden_size = 64 * heads,
                                          .attention_head_count = heads}));
  };
  EXPECT_EQ(degrees(1), (ThreeDegrees{1, 1, 1}));
  EXPECT_EQ(degrees(2), (ThreeDegrees{2, 1, 1}));
  EXPECT_EQ(degrees(4), (ThreeDegrees{2, 2, 1}));
  EXPECT_EQ(degrees(8), (ThreeDegrees{2, 2, 2}));
  EXPECT_EQ(degrees(16), (ThreeDegrees{4, 2, 2}));
  EXPECT_EQ(degrees(64), (ThreeDegrees{4, 4, 4}));
  EXPECT_EQ(degrees(8, 1), (ThreeDegrees{1, 4, 2}));
}

}  // namespace
}  // namespace parplan
