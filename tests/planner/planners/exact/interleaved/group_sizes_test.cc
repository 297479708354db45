#include "planner/planners/exact/interleaved/group_sizes.h"

#include <cstdint>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/model/pass_order.h"
#include "tests/support/estimated_problem.h"

namespace parplan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class GroupSizesTest : public testing::Test {
 protected:
  GroupSizes Of(int degree, int64_t count, Target target = Target::kMegatron) {
    EstimatedOptions options{.device_count = 16, .global_batch_size = 16};
    options.rules = {.target = target, .allow_estimates = true};
    const PlanningProblem problem = EstimatedProblem(options);
    const CostModel costs = *CostModel::Create(problem);
    const StrategySpace space(problem, costs);
    const GroupSizes sizes = GroupSizesOf(space, degree, count);
    EXPECT_EQ(HasGroupSizes(space, degree, count), !sizes.tried.empty());
    return sizes;
  }
};

TEST_F(GroupSizesTest, AreAllIfThereAreFew) {
  const GroupSizes ten = Of(4, 10);
  EXPECT_THAT(ten.tried, ElementsAre(5, 6, 10));
  EXPECT_TRUE(ten.are_all);
  EXPECT_THAT(Of(4, 4).tried, IsEmpty());
  EXPECT_THAT(Of(1, 8).tried, IsEmpty());
  EXPECT_THAT(Of(4, 10, Target::kParplan).tried, IsEmpty());
}

TEST_F(GroupSizesTest, ArePossibleAndEndWithAllMicroBatches) {
  for (const int64_t count : {17, 60, 64, 120, 1000, 4096}) {
    for (const int degree : {2, 4, 16}) {
      const GroupSizes sizes = Of(degree, count);
      ASSERT_FALSE(sizes.tried.empty());
      EXPECT_LE(sizes.tried.size(), 16u);
      int64_t before = degree;
      for (const int64_t size : sizes.tried) {
        EXPECT_TRUE(IsGroupSize(size, degree, count)) << size << " of " << count;
        EXPECT_GT(size, before);
        before = size;
      }
      EXPECT_EQ(before, count);
      if (count > 100 && degree == 2) {
        EXPECT_FALSE(sizes.are_all);
      }
    }
  }
}

// The least memory is sought with the first.
TEST_F(GroupSizesTest, BeginWithTheSmallest) {
  EXPECT_EQ(Of(9, 49).tried.front(), 10);
  for (int degree = 2; degree <= 64; ++degree) {
    for (const int64_t count : {65, 66, 67, 100, 257, 1000}) {
      const GroupSizes sizes = Of(degree, count);
      int64_t smallest = degree + 1;
      while (!IsGroupSize(smallest, degree, count)) ++smallest;
      ASSERT_EQ(sizes.tried.front(), smallest) << degree << " of " << count;
    }
  }
}

}  // namespace
}  // namespace parplan
