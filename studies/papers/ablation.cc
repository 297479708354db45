#include "studies/papers/ablation.h"

#include "studies/papers/grid.h"
#include "studies/papers/paper_search.h"

namespace parplan::papers {
namespace {

PlanningProblem Same(const PlanningProblem& problem) { return problem; }

template <SearchDimension... kDimensions>
PlanningProblem Without(const PlanningProblem& problem) {
  PlanningRules rules = problem.rules();
  for (const SearchDimension dimension : {kDimensions...}) {
    rules.dimensions = rules.dimensions.Without(dimension);
  }
  return problem.WithRules(rules);
}

PlanningProblem WithoutRecompute(const PlanningProblem& problem) {
  PlanningRules rules = problem.rules();
  rules.allow_recompute = false;
  return problem.WithRules(rules);
}

PlanningProblem WithoutSharding(const PlanningProblem& problem) {
  PlanningRules rules = problem.rules();
  rules.allow_sharded_data_parallel = false;
  return problem.WithRules(rules);
}

PlanningProblem UnderGpipe(const PlanningProblem& problem) {
  PlanningRules rules = problem.rules();
  rules.schedule = Schedule::kGpipe;
  return problem.WithRules(rules);
}

}  // namespace

const std::vector<Ablation>& Ablations() {
  constexpr char kWhole[] = "galvatron-bmw";
  static const auto& ablations = *new std::vector<Ablation>{
      {"whole", kWhole, Same},
      {"one strategy for all layers", kWhole, Without<SearchDimension::kPerLayer>},
      {"no recomputation", kWhole, WithoutRecompute},
      {"no sharding", kWhole, WithoutSharding},
      {"no tensor parallelism", kWhole, Without<SearchDimension::kTensor>},
      {"no pipeline", kWhole, Without<SearchDimension::kPipeline>},
      {"no balance (`galvatron-base`)", "galvatron-base", Same},
      {"even stages", kWhole, Without<SearchDimension::kUnevenStages>},
      {"GPipe", kWhole, UnderGpipe},
  };
  return ablations;
}

AblationRow AblationRowOf(const GridQuestion& question) {
  AblationRow row{.model = ModelName(question.family, question.layer_count),
                  .memory_gb = question.memory_gb};
  // With the best partitions of the baselines beside it, what the queue is worth would not show.
  const PlanningProblem problem = WithPartitioner(ProblemOf(question), Partitioner::kEven);
  for (const Ablation& ablation : Ablations()) {
    row.rates.push_back(SixDigits(Ask(ablation.change(problem), ablation.planner).rate));
  }
  return row;
}

std::vector<GridQuestion> AblationQuestions() {
  std::vector<GridQuestion> questions;
  for (const Family family : kFamilies) {
    for (const int memory_gb : kGridBudgets) questions.push_back({family, 32, 8, memory_gb});
  }
  return questions;
}

}  // namespace parplan::papers
