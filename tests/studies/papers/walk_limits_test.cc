#include "studies/papers/walk_limits.h"

#include <gtest/gtest.h>

#include <iterator>

namespace parplan::papers {
namespace {

TEST(WalkLimits, MorePartitionsAndStatesAreNeverSlower) {
  const WalkRow row = WalkRowOf({Family::kT5Short, 32, {.memory_gb = 8}});
  EXPECT_GT(row.stage_count, 1);
  EXPECT_GT(row.walk_count, 0);
  EXPECT_GT(row.most_partitions, 2);
  ASSERT_EQ(row.steps_by_partitions.size(), std::size(kPartitionLimits) + 1);
  ASSERT_EQ(row.steps_by_states.size(), std::size(kStateLimitLogs));
  for (size_t index = 1; index < row.steps_by_partitions.size(); ++index) {
    EXPECT_LE(row.steps_by_partitions[index], row.steps_by_partitions[index - 1]);
  }
  for (size_t index = 1; index < row.steps_by_states.size(); ++index) {
    EXPECT_LE(row.steps_by_states[index], row.steps_by_states[index - 1]);
  }
  EXPECT_GT(row.steps_by_partitions.back(), 0.0);
  EXPECT_EQ(row.steps_by_partitions.back(), row.steps_by_states.back());
}

// Two GiB hold no plan of T5 in any pipeline of eight devices.
TEST(WalkLimits, NothingThatFitsHasNoWalks) {
  const WalkRow row = WalkRowOf({Family::kT5Short, 32, {.memory_gb = 2}});
  EXPECT_EQ(row.walk_count, 0);
  EXPECT_TRUE(row.steps_by_states.empty());
}

TEST(WalkLimits, QuestionsAreThoseOfThePage) { EXPECT_EQ(WalkQuestions().size(), 23u); }

}  // namespace
}  // namespace parplan::papers
