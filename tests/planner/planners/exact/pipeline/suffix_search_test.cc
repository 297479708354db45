#include "planner/planners/exact/pipeline/suffix_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/cost/cost_model.h"
#include "planner/planners/exact/pipeline/pipeline_search.h"
#include "planner/planners/exact/pipeline/reference_partition.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/base/search_numbers.h"
#include "planner/search/space/option_table.h"
#include "planner/search/space/strategy_space.h"
#include "tests/support/random_problem.h"

namespace parplan {
namespace {

// Returns the least bound of the plans of one mask by the relaxation `keeps`, or `cutoff` if none
// is within it.
double BoundOf(const PipelineSetting& setting, const OptionMask& mask, FrontKeeps keeps,
               double grain, double cutoff) {
  const SearchControl control;
  SearchMeter meter(control);
  const std::vector<int> reference = ReferencePartition(setting, mask);
  RangeBounds ranges(setting, mask, reference, meter);
  PartitionGraph graph(setting, ranges);
  if (graph.Build(cutoff, meter) != PartitionGraph::Outcome::kBuilt) return cutoff;
  FrontCache fronts(setting, mask, keeps, grain);
  SuffixSearch search(setting, graph, fronts, meter);
  EXPECT_TRUE(search.Run(cutoff));
  return search.result_count() > 0 ? search.bound(0) : cutoff;
}

// For every candidate of random problems whose best step is known: no relaxation bounds it above
// that step, with exact times and with grains, and the bound of more exact stages is no lower.
TEST(SuffixSearch, RelaxationsAreInOrderBelowTheBestStep) {
  int candidate_count = 0;
  int sharper_count = 0;
  for (uint64_t seed = 9'100; seed < 9'300; ++seed) {
    const PlanningProblem problem = RandomProblem(seed);
    const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
    ASSERT_TRUE(costs.ok()) << costs.status();
    const StrategySpace space(problem, *costs);
    const int64_t batch = problem.global_batch_size();
    const double overhead = costs->step_overhead().value();
    for (const int degree : space.PipelineDegrees()) {
      if (degree == 1) continue;
      for (const int64_t count : space.MicroBatchCounts(batch)) {
        const OptionTable table(problem, *costs, space, degree, batch / count);
        if (!table.usable()) continue;
        const PipelineCandidate candidate = {batch, count, degree, kDefaultSchedule};
        SCOPED_TRACE(absl::StrCat("seed ", seed, " P ", degree, " m ", count));
        const SearchControl control;
        SearchMeter meter(control);
        const PipelineOutcome best =
            SearchPipeline(space, *costs, table, candidate, Seconds::Infinite(), 1, meter);
        if (best.plans.empty() || !best.is_exact) continue;
        ++candidate_count;
        const double step = best.plans.front().prediction.step.value() - overhead;
        const PipelineSetting setting(space, *costs, table, candidate, problem.usable_memory());
        const double cutoff = step * 1.05;
        for (const double grain : {1.0 / 32, 1.0 / 256, 0.0}) {
          double first_syncs = cutoff;
          double all_sync = cutoff;
          double whole = cutoff;
          for (const OptionMask& mask : PlanWideMasks(space, table)) {
            const auto bound = [&](FrontKeeps keeps, double of_grain) {
              return BoundOf(setting, mask, keeps, of_grain, cutoff);
            };
            first_syncs = std::min(first_syncs, bound(FrontKeeps::kForwardBackward, grain));
            all_sync = std::min(all_sync, bound(FrontKeeps::kForwardBackwardSync, grain));
            whole = std::min(whole, bound(FrontKeeps::kAll, 0.0));
          }
          EXPECT_LE(all_sync, step * (1.0 + 1e-9)) << "grain " << grain;
          EXPECT_LE(all_sync, whole * (1.0 + 1e-9)) << "grain " << grain;
          if (grain == 0.0) {
            EXPECT_LE(first_syncs, all_sync * (1.0 + 1e-9));
          }
          if (all_sync > first_syncs * (1.0 + 1e-6)) ++sharper_count;
        }
      }
    }
  }
  EXPECT_GE(candidate_count, 100);
  EXPECT_GE(sharper_count, 10);
}

}  // namespace
}  // namespace parplan
