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

// "Nothing fits" never stands beside a rival that fits, and least memory never above it: with
// recomputation for all that can recompute, also at batches where plans without it do not fit.
TEST(PlanRows, LeastMemoryFitsWhereARivalDoes) {
  for (const int64_t batch : {8, 32}) {
    SCOPED_TRACE(batch);
    ASSERT_OK_AND_ASSIGN(const ProductRows rows, PlanRows(BuiltInTable(), "a100-sxm-80gb", batch));
    ASSERT_EQ(rows.cells.size(), BuiltInTable().rows.size());
    ASSERT_EQ(rows.recomputing.size(), rows.cells.size());
    for (size_t row = 0; row < rows.cells.size(); ++row) {
      SCOPED_TRACE(row);
      const auto cell = [&](Column column) -> const TableMemory& {
        return rows.cells[row][static_cast<int>(column)];
      };
      const TableMemory& theirs = cell(Column::kTheirs);
      for (const Column rival : {Column::kAlpa, Column::kMegatronLm}) {
        EXPECT_LE(theirs.needed, cell(rival).needed) << PlannerOf(rival);
        EXPECT_GE(theirs.fits, cell(rival).fits) << PlannerOf(rival);
      }
      EXPECT_LE(rows.recomputing[row].needed, theirs.needed);
      EXPECT_LE(rows.recomputing[row].needed, cell(Column::kColossalAuto).needed);
      EXPECT_GE(rows.recomputing[row].fits, cell(Column::kColossalAuto).fits);
    }
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
