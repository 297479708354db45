#include "studies/papers/pipelines_alone.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "base/check.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/predict_plan.h"
#include "planner/planners/galvatron/bmw_walk.h"
#include "planner/planners/galvatron/galvatron_method.h"
#include "planner/planners/galvatron/galvatron_stages.h"
#include "planner/planners/galvatron/galvatron_tables.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/strategy_space.h"
#include "planner/search/stage/stage_balance.h"
#include "studies/papers/grid.h"
#include "studies/papers/paper_search.h"

namespace parplan::papers {
namespace {

// One batch, number of micro-batches and table of strategies.
struct BalanceCandidate {
  int64_t batch = 0;
  int64_t micro_batch_count = 0;
  const GalvatronTables* tables = nullptr;
  // No plan of it has a higher rate.
  double most_rate = 0.0;
};

// Returns the best rate of the memory-balanced partitions of a candidate; 0 if none fits.
double RateOfBalancedMemory(const PlanningProblem& problem, const CostModel& costs,
                            const BalanceCandidate& candidate, SearchMeter& meter,
                            PlanEvaluator& evaluator) {
  const GalvatronTables& tables = *candidate.tables;
  GalvatronStages stages(problem, costs, tables, kDefaultSchedule, candidate.micro_batch_count,
                         meter);
  double best = 0.0;
  // The meter of a study never ends a search.
  for (const std::optional<LeastMemory>& memory :
       {stages.MemoryAtFastest(), stages.LeastMemoryOfStages(/*with_recompute=*/false),
        stages.LeastMemoryOfStages(/*with_recompute=*/true)}) {
    const std::optional<MemoryBalancedPartition> balanced =
        MemoryBalancedSplit(tables.kind_of_unit(), *memory, EvenUnits(tables));
    if (!balanced) continue;
    std::vector<const GalvatronStage*> solved;
    int unit = 0;
    for (const int unit_count : balanced->layer_counts) {
      const GalvatronStage* const stage =
          stages.Solve(unit, unit_count, static_cast<int>(solved.size()));
      if (stage == nullptr) break;
      solved.push_back(stage);
      unit += unit_count;
    }
    if (solved.size() < balanced->layer_counts.size()) continue;
    const Prediction prediction =
        evaluator.Predict(stages.PlanOf(balanced->layer_counts, candidate.batch, solved));
    if (prediction.fits()) best = std::max(best, prediction.samples_per_second);
  }
  return best;
}

// Returns the best rate of balanced memory alone over all candidates of a question.
double BestBalancedMemory(const PlanningProblem& problem) {
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  PARPLAN_CHECK(costs.ok());
  const StrategySpace space(problem, *costs);
  GalvatronTableCache cache(space, *costs);
  std::vector<BalanceCandidate> candidates;
  for (const int64_t batch : problem.GlobalBatchSizes()) {
    for (const int degree : space.PipelineDegrees()) {
      for (const int64_t count : space.MicroBatchCounts(batch)) {
        for (const bool with_recompute : {false, true}) {
          for (const GalvatronTables& tables : cache.Of(degree, batch / count, with_recompute)) {
            const Seconds bound = tables.LowerBound(count) + costs->step_overhead();
            candidates.push_back({.batch = batch,
                                  .micro_batch_count = count,
                                  .tables = &tables,
                                  .most_rate = static_cast<double>(batch) / bound.value()});
          }
        }
      }
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const BalanceCandidate& a, const BalanceCandidate& b) {
                     return a.most_rate > b.most_rate;
                   });
  const SearchControl control;
  SearchMeter meter(control);
  PlanEvaluator evaluator(problem, *costs);
  double best = 0.0;
  for (const BalanceCandidate& candidate : candidates) {
    if (candidate.most_rate <= best) break;
    best = std::max(best, RateOfBalancedMemory(problem, *costs, candidate, meter, evaluator));
  }
  return best;
}

}  // namespace

PlanningProblem PipelinesAlone(const PlanningProblem& problem) {
  PlanningRules rules = problem.rules();
  rules.dimensions = rules.dimensions.Without(SearchDimension::kTensor);
  rules.allow_sharded_data_parallel = false;
  return problem.WithRules(rules);
}

PipelineRow PipelineRowOf(const GridQuestion& question) {
  const PlanningProblem problem = PipelinesAlone(ProblemOf(question));
  const PlanningProblem even = WithPartitioner(problem, Partitioner::kEven);
  const Answer bmw = Ask(even, "galvatron-bmw");
  std::vector<std::string> balance;
  for (const std::string& note : bmw.notes) {
    if (absl::StrContains(note, "alpha_") || absl::StrContains(note, "-balanced")) {
      balance.push_back(note);
    }
  }
  return {.model = ModelName(question.family, question.layer_count),
          .memory_gb = question.memory_gb,
          .base = SixDigits(Ask(even, "galvatron-base").rate),
          .greedy_base =
              SixDigits(Ask(WithPartitioner(problem, Partitioner::kGreedy), "galvatron-base").rate),
          .bmw = SixDigits(bmw.rate),
          .hybrid = SixDigits(Ask(problem, "dp+pp").rate),
          .optimum = SixDigits(Ask(problem, kTreeOptimum).rate),
          .memory_balanced = SixDigits(BestBalancedMemory(even)),
          .notes = std::move(balance)};
}

std::vector<GridQuestion> PipelineQuestions() {
  std::vector<GridQuestion> questions;
  for (const Family family : {Family::kT5Short, Family::kSwin}) {
    for (const int memory_gb : kGridBudgets) questions.push_back({family, 32, 8, memory_gb});
  }
  return questions;
}

}  // namespace parplan::papers
