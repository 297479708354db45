#include "studies/papers/forward_memory.h"

#include <gtest/gtest.h>

#include "studies/papers/paper_search.h"

namespace parplan::papers {
namespace {

// The program without decoupling is no slower than with it and no faster than the optimum, on one
// stage with as many micro-batches.
TEST(RateWithoutDecoupling, IsBetweenTheProgramAndTheOptimum) {
  int question_count = 0;
  for (const Family family : {Family::kBert, Family::kT5, Family::kSwin}) {
    for (const int memory_gb : {8, 10, 12}) {
      for (const int64_t micro_batch_count : {2, 8}) {
        PlanningProblem problem =
            ProblemOf(ModelOf(family, 32), {.count = 8, .memory_gb = memory_gb}, {0, 64});
        PlanningRules rules = problem.rules();
        rules.max_pipeline_parallel_degree = 1;
        rules.micro_batch_count = micro_batch_count;
        problem = problem.WithRules(rules);
        const double optimum = Ask(problem, kTreeOptimum).rate;
        const double program = AskDynamicProgram(problem).rate;
        const double coupled = RateWithoutDecoupling(problem, optimum * 2.0);
        EXPECT_GE(coupled * (1.0 + 1e-6), program);
        EXPECT_LE(coupled, optimum * (1.0 + 1e-6));
        if (optimum > 0.0) ++question_count;
      }
    }
  }
  EXPECT_GT(question_count, 10);
}

}  // namespace
}  // namespace parplan::papers
