#include "planner/search/candidate_search.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "planner/base/check.h"
#include "planner/cost/predict_plan.h"
#include "planner/search/layer_assignment.h"
#include "planner/search/stage_balance.h"

namespace parplan {
namespace {

// Strategies and stage of every layer, for the last tie-break.
std::vector<std::pair<Strategy, int>> LayerList(const Plan& plan) {
  std::vector<std::pair<Strategy, int>> layers;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    for (const StageLayerRun& run : plan.stages[stage].layer_runs) {
      layers.insert(layers.end(), run.layer_count, {run.strategy, static_cast<int>(stage)});
    }
  }
  return layers;
}

// Solves stages, each distinct one once.
class StageSolver {
 public:
  StageSolver(const StageTables& tables, Bytes budget, SearchMeter& meter)
      : tables_(tables), budget_(budget), meter_(meter) {}

  // Null when nothing fits. The pointer lives as long as the solver.
  const StageAssignment* Solve(int first_layer, int layer_count, int stage_index) {
    StageChoices choices = tables_.ChoicesOfStage(first_layer, layer_count, stage_index);
    Key key{tables_.InFlight(stage_index), tables_.DefinitionsOfStage(first_layer, layer_count),
            choices.runs};
    auto found = solved_.find(key);
    if (found == solved_.end()) {
      found = solved_.emplace(std::move(key), AssignStrategies(choices, budget_, meter_)).first;
    }
    return std::get_if<StageAssignment>(&found->second);
  }

 private:
  using Key = std::tuple<int64_t, std::vector<int>, std::vector<LayerChoiceRun>>;
  const StageTables& tables_;
  const Bytes budget_;
  SearchMeter& meter_;
  std::map<Key, std::variant<StageAssignment, BudgetTooSmall>> solved_;
};

StagePlan StageOf(const PlanningProblem& problem, const StageTables& tables, int first_layer,
                  const StageAssignment& assignment) {
  const std::vector<int>& definition_of_layer = problem.model().definition_of_layer();
  StagePlan stage;
  for (size_t index = 0; index < assignment.options.size(); ++index) {
    const int layer = first_layer + static_cast<int>(index);
    const int definition = definition_of_layer[layer];
    const Strategy& strategy = tables.entries()[definition][assignment.options[index]].strategy;
    const bool continues = index > 0 && definition_of_layer[layer - 1] == definition &&
                           stage.layer_runs.back().strategy == strategy;
    if (!continues) {
      stage.layer_runs.push_back(
          {.first_layer_index = layer, .layer_count = 0, .strategy = strategy});
    }
    ++stage.layer_runs.back().layer_count;
  }
  return stage;
}

// The plan of a partition; nothing when a stage does not fit, or when a stage
// alone takes longer than the step of `best`.
std::optional<Plan> PlanOf(const PlanningProblem& problem, const StageTables& tables,
                           const Partition& partition, StageSolver& solver,
                           const std::optional<PredictedPlan>& best) {
  Plan plan{.device_count = problem.device_count(),
            .global_batch_size = problem.global_batch_size(),
            .micro_batch_count = tables.micro_batch_count(),
            .schedule = problem.rules().schedule};
  const int rank_count = plan.device_count / static_cast<int>(partition.size());
  int first_layer = 0;
  for (int stage_index = 0; stage_index < static_cast<int>(partition.size()); ++stage_index) {
    const StageAssignment* assignment =
        solver.Solve(first_layer, partition[stage_index], stage_index);
    if (assignment == nullptr) return std::nullopt;
    // A hair of room for the rounding of sums in another order.
    if (best && assignment->is_exact &&
        assignment->time * (1.0 - 1e-12) > best->prediction.step) {
      return std::nullopt;
    }
    plan.stages.push_back(StageOf(problem, tables, first_layer, *assignment));
    plan.stages.back().first_rank = stage_index * rank_count;
    plan.stages.back().rank_count = rank_count;
    first_layer += partition[stage_index];
  }
  return plan;
}

// The partitions worth trying, each once.
std::vector<Partition> PartitionsToTry(const StageTables& tables, const Partition& even,
                                       const std::vector<int>& definition_of_layer,
                                       const LeastMemory& memory, const Partition& by_memory,
                                       Bytes budget) {
  std::vector<Partition> partitions;
  const auto add = [&partitions](Partition partition) {
    if (std::find(partitions.begin(), partitions.end(), partition) == partitions.end()) {
      partitions.push_back(std::move(partition));
    }
  };
  const Partition by_time = TimeBalancedSplit(tables.FastestLayerTimes(), even);
  add(by_time);
  add(even);
  add(by_memory);
  const std::optional<Partition> limited =
      MemoryLimitedSplit(definition_of_layer, memory, budget, by_time);
  if (limited) add(*limited);
  return partitions;
}

}  // namespace

bool IsBetterPlan(const PredictedPlan& a, const PredictedPlan& b) {
  const auto key = [](const PredictedPlan& plan) {
    return std::tuple(plan.prediction.step, plan.prediction.peak_memory,
                      plan.plan.pipeline_parallel_degree(), plan.plan.micro_batch_count);
  };
  if (key(a) != key(b)) return key(a) < key(b);
  return LayerList(a.plan) < LayerList(b.plan);
}

CandidateOutcome SearchCandidate(const PlanningProblem& problem, const CostModel& costs,
                                 const StageTables& tables, SearchMeter& meter,
                                 std::optional<PredictedPlan>& best) {
  const std::vector<int>& definition_of_layer = problem.model().definition_of_layer();
  std::vector<char> is_transformer;
  for (int layer = 0; layer < problem.model().layer_count(); ++layer) {
    is_transformer.push_back(IsTransformer(problem.model().layer(layer).kind) ? 1 : 0);
  }
  const LeastMemory memory = tables.LeastMemoryOfStages();
  const Partition even = EvenSplit(is_transformer, tables.pipeline_parallel_degree());
  const std::optional<MemoryBalancedPartition> by_memory =
      MemoryBalancedSplit(definition_of_layer, memory, even);
  PARPLAN_CHECK(by_memory.has_value());

  CandidateOutcome outcome;
  outcome.smallest_usable_memory = by_memory->largest_stage + costs.context_memory();
  if (outcome.smallest_usable_memory > problem.usable_memory()) {
    outcome.proved_bound = Seconds::Infinite();
    return outcome;
  }
  const Bytes budget = problem.usable_memory() - costs.context_memory();
  StageSolver solver(tables, budget, meter);
  for (const Partition& partition :
       PartitionsToTry(tables, even, definition_of_layer, memory, by_memory->layer_counts,
                       budget)) {
    std::optional<Plan> plan = PlanOf(problem, tables, partition, solver, best);
    const bool is_whole_answer = tables.pipeline_parallel_degree() == 1 && !meter.stopped();
    if (!plan) {
      // One stage that fits is given up only when it is slower than the best.
      if (is_whole_answer) outcome.proved_bound = best->prediction.step;
      continue;
    }
    PredictedPlan predicted{*std::move(plan), {}};
    predicted.prediction = PredictPlan(problem, costs, predicted.plan);
    PARPLAN_CHECK(predicted.prediction.fits());
    if (is_whole_answer) outcome.proved_bound = predicted.prediction.step;
    if (!best || IsBetterPlan(predicted, *best)) best = std::move(predicted);
  }
  return outcome;
}

}  // namespace parplan
