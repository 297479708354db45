#include "studies/papers/pipelines_alone.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "base/check.h"
#include "planner/cost/cost_model.h"
#include "planner/planners/galvatron/bmw_walk.h"
#include "studies/papers/grid.h"
#include "studies/papers/paper_search.h"

namespace parplan::papers {

PipelineRow PipelineRowOf(const GridQuestion& question) {
  const PlanningProblem whole = ProblemOf(question);
  PlanningRules rules = whole.rules();
  rules.dimensions = rules.dimensions.Without(SearchDimension::kTensor);
  rules.allow_sharded_data_parallel = false;
  const PlanningProblem problem = whole.WithRules(rules);
  const PlanningProblem even = WithPartitioner(problem, Partitioner::kEven);
  const Answer bmw = Ask(even, "galvatron-bmw");
  std::vector<std::string> balance;
  for (const std::string& note : bmw.notes) {
    if (absl::StrContains(note, "alpha_") || absl::StrContains(note, "-balanced")) {
      balance.push_back(note);
    }
  }
  double memory_balanced = 0.0;
  if (bmw.plan.has_value()) {
    const absl::StatusOr<CostModel> costs = CostModel::Create(even);
    PARPLAN_CHECK(costs.ok());
    for (const ExplainedWalk& walk : ExplainWalks(even, *costs, *bmw.plan, {})) {
      for (const ExplainedStep& step : walk.steps) {
        if (step.step.verdict != PartitionVerdict::kStart || !step.plan) continue;
        if (!step.plan->prediction.fits()) continue;
        memory_balanced = std::max(memory_balanced, step.plan->prediction.samples_per_second);
      }
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
          .memory_balanced = SixDigits(memory_balanced),
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
