// The laws between the papers' planners over the grid of their experiments.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "planner/planners/baselines/baselines.h"
#include "studies/papers/grid.h"
#include "studies/papers/paper_models.h"
#include "studies/papers/paper_search.h"

namespace parplan::papers {
namespace {

// 5 families, 2 depths, 4 budgets, 8 and 16 devices, with one batch in the place of the range that
// `parplan-study papers` searches. More memory is never slower either.
TEST(GalvatronExperiments, NoCellOfTheGridIsBelowItsBaselinesOrItsParts) {
  int cell_count = 0, fitting_count = 0;
  for (const Family family : kFamilies) {
    for (const int layer_count : {32, 48}) {
      for (const int device_count : {8, 16}) {
        // [planner] its rate with less memory.
        std::map<std::string, double> smaller;
        for (const int memory_gb : kGridBudgets) {
          const PlanningProblem problem =
              ProblemOf(ModelOf(family, layer_count),
                        {.count = device_count, .memory_gb = memory_gb}, {0, 32});
          PlanningRules rules = problem.rules();
          rules.allow_recompute = false;
          const PlanningProblem without = problem.WithRules(rules);
          SCOPED_TRACE(testing::Message() << ModelName(family, layer_count) << ", " << memory_gb
                                          << " GB, " << device_count << " devices");
          double best = 0.0;
          for (const absl::string_view baseline : PaperBaselineNames()) {
            best = std::max(best, Ask(problem, baseline).rate);
          }
          for (const char* const planner : kPaperPlanners) {
            const double rate = Ask(problem, planner).rate;
            EXPECT_GE(rate, best) << planner;
            EXPECT_GE(rate * (1.0 + 1e-6), smaller[planner]) << planner;
            smaller[planner] = rate;
            // `galvatron` has no recomputation to forbid.
            if (planner != kPaperPlanners[0]) {
              EXPECT_GE(rate, Ask(without, planner).rate) << planner;
            }
            best = rate;
          }
          ++cell_count;
          if (best > 0.0) ++fitting_count;
        }
      }
    }
  }
  EXPECT_EQ(cell_count, 80);
  EXPECT_GT(fitting_count, 70);
}

// Proofs of these questions leave gaps. Without the answers for smaller devices a plan for 16 GB
// was 0.4 to 0.9 % slower than that for 12 GB.
TEST(GalvatronExperiments, MoreMemoryIsNeverSlowerInTheWholeSpace) {
  for (const GridQuestion& question :
       {GridQuestion{.family = Family::kBert, .layer_count = 48, .device_count = 8},
        GridQuestion{.family = Family::kBert, .layer_count = 48, .device_count = 16},
        GridQuestion{.family = Family::kSwin, .layer_count = 48, .device_count = 64}}) {
    double smaller = 0.0;
    double gap = 0.0;
    for (const int memory_gb : kGridBudgets) {
      SCOPED_TRACE(testing::Message()
                   << ModelName(question.family, question.layer_count) << ", " << memory_gb
                   << " GB, " << question.device_count << " devices");
      GridQuestion asked = question;
      asked.memory_gb = memory_gb;
      const Answer answer = Ask(ProblemOf(asked), "exact");
      EXPECT_TRUE(answer.fits);
      EXPECT_GE(answer.rate * (1.0 + 1e-9), smaller);
      smaller = answer.rate;
      gap = std::max(gap, answer.gap);
    }
    EXPECT_GT(gap, 0.0);
  }
}

}  // namespace
}  // namespace parplan::papers
