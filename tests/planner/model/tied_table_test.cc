#include "planner/model/tied_table.h"

#include <gtest/gtest.h>

#include "tests/support/estimated_problem.h"

namespace parplan {
namespace {

PlanningProblem Problem(bool is_tied) {
  EstimatedOptions options;
  options.device_count = 8;
  options.decoder_count = 2;
  options.tied_embedding = is_tied;
  return EstimatedProblem(options);
}

TEST(TiedTable, IsHeldByEmbeddingAndHead) {
  const PlanningProblem problem = Problem(/*is_tied=*/true);
  EXPECT_TRUE(HasTiedTable(problem.model()));
  EXPECT_TRUE(HoldsTiedTable(problem.model(), 0));
  EXPECT_FALSE(HoldsTiedTable(problem.model(), 1));
  EXPECT_TRUE(HoldsTiedTable(problem.model(), 2));
}

TEST(TiedTable, IsHeldByNobodyWhereEachHasItsOwn) {
  const PlanningProblem problem = Problem(/*is_tied=*/false);
  EXPECT_FALSE(HasTiedTable(problem.model()));
  for (int definition = 0; definition < 3; ++definition) {
    EXPECT_FALSE(HoldsTiedTable(problem.model(), definition));
  }
}

TEST(TiedTable, IsHeldAlikeByTheSameRanks) {
  const Strategy one{.tensor_parallel_degree = 2,
                     .data_parallel_degree = 2,
                     .sharding_level = ShardingLevel::kOptimizer,
                     .context_parallel_degree = 2};
  EXPECT_TRUE(HoldTableAlike(one, one));
  Strategy other = one;
  other.context_kind = ContextKind::kUlysses;
  other.sequence_parallel = true;
  EXPECT_TRUE(HoldTableAlike(one, other));
  other = one;
  other.sharding_level = ShardingLevel::kNone;
  EXPECT_FALSE(HoldTableAlike(one, other));
  other = one;
  other.rank_order = RankOrder::kDataInnermost;
  EXPECT_FALSE(HoldTableAlike(one, other));
  other = one;
  other.tensor_parallel_degree = 1;
  other.data_parallel_degree = 4;
  EXPECT_FALSE(HoldTableAlike(one, other));
  other = one;
  other.context_parallel_degree = 1;
  other.data_parallel_degree = 4;
  EXPECT_FALSE(HoldTableAlike(one, other));
}

}  // namespace
}  // namespace parplan
