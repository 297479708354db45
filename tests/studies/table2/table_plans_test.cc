#include "studies/table2/table_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace parplan::table2 {
namespace {

TEST(MemoryOfPlan, PartsAddUpBelowThePeak) {
  for (int column = 0; column < kColumnCount; ++column) {
    SCOPED_TRACE(PlannerOf(static_cast<Column>(column)));
    ASSERT_OK_AND_ASSIGN(
        const TableMemory memory,
        MemoryOfPlan({.model = "1.7B", .device_count = 4}, static_cast<Column>(column)));
    EXPECT_TRUE(memory.fits);
    EXPECT_LT(memory.persistent + memory.activations + memory.temporary, memory.peak);
    EXPECT_LE(memory.peak, memory.needed);
    EXPECT_LT(memory.weights, memory.persistent);
    EXPECT_LT(memory.redundant, memory.persistent + memory.activations);
  }
}

// Weights in bf16, gradients in bf16, Adam's moments and a copy in fp32: 16 bytes a parameter.
// Without ZeRO two devices hold half of BERT-Large's 335 million each, and no strategy less.
TEST(MemoryOfPlan, PersistentMemoryIsThatOfAdam) {
  ASSERT_OK_AND_ASSIGN(const TableMemory memory,
                       MemoryOfPlan({.model = "BERT-Large", .device_count = 2}, Column::kTheirs));
  EXPECT_NEAR(memory.persistent.as_double() / (335e6 / 2 * 16), 1.0, 0.03);
  // Fifteen times what the table has for the row.
  EXPECT_GT(memory.persistent.as_double(), 14 * 185.05e6);
}

TEST(MemoryOfPlan, TheirsIsTheLeastOfTheRow) {
  const RowSetting setting{.model = "3.6B", .device_count = 8, .global_batch_size = 32};
  ASSERT_OK_AND_ASSIGN(const TableMemory theirs, MemoryOfPlan(setting, Column::kTheirs));
  for (const Column column : {Column::kAlpa, Column::kMegatronLm}) {
    ASSERT_OK_AND_ASSIGN(const TableMemory rival, MemoryOfPlan(setting, column));
    EXPECT_LE(theirs.needed, rival.needed);
  }
}

TEST(ProblemOf, NamesWhatIsUnknown) {
  EXPECT_THAT(ProblemOf({.model = "BERT-Huge"}, Column::kAlpa),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("BERT-Huge")));
  EXPECT_THAT(ProblemOf({.model = "1.7B", .device = "abacus"}, Column::kAlpa),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("--device")));
}

}  // namespace
}  // namespace parplan::table2
