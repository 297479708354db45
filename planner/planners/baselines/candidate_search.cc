#include "planner/planners/baselines/candidate_search.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "planner/cost/predict_plan.h"
#include "planner/search/stage/greedy_split.h"
#include "planner/search/stage/layer_assignment.h"
#include "planner/search/stage/partition_moves.h"
#include "planner/search/stage/stage_balance.h"

namespace parplan {
namespace {

// Solves stages, each distinct one once.
class StageSolver {
 public:
  StageSolver(const StageTables& tables, Bytes budget, SearchMeter& meter)
      : tables_(tables), budget_(budget), meter_(meter) {}

  // Returns null if nothing fits. The pointer lives as long as the solver.
  const StageAssignment* Solve(int first_layer, int layer_count, int stage_index,
                               const StageObjective& objective) {
    StageChoices choices = tables_.ChoicesOfStage(first_layer, layer_count, stage_index, objective);
    Key key{objective, tables_.InFlight(stage_index),
            tables_.DefinitionsOfStage(first_layer, layer_count), choices.runs};
    auto found = solved_.find(key);
    if (found == solved_.end()) {
      found = solved_.emplace(std::move(key), AssignStrategies(choices, budget_, meter_)).first;
    }
    return std::get_if<StageAssignment>(&found->second);
  }

 private:
  using Key = std::tuple<StageObjective, int64_t, std::vector<int>, std::vector<LayerChoiceRun>>;
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

// Returns the plan of a partition with stages solved for `objective`; nothing if a stage does not
// fit, or if the work of one stage alone takes longer than the step of `best`.
std::optional<Plan> PlanOf(const PlanningProblem& problem, const StageTables& tables,
                           const Partition& partition, const StageObjective& objective,
                           StageSolver& solver, const std::optional<PredictedPlan>& best) {
  Plan plan{.device_count = problem.device_count(),
            .global_batch_size = problem.global_batch_size(),
            .micro_batch_count = tables.micro_batch_count(),
            .schedule = tables.schedule()};
  const int rank_count = plan.device_count / static_cast<int>(partition.size());
  int first_layer = 0;
  for (int stage_index = 0; stage_index < static_cast<int>(partition.size()); ++stage_index) {
    const StageAssignment* assignment =
        solver.Solve(first_layer, partition[stage_index], stage_index, objective);
    if (assignment == nullptr) return std::nullopt;
    // A factor that covers the rounding of sums in another order.
    if (best && assignment->is_exact && objective == tables.WholeStep() &&
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

// Returns the objectives stages are solved for. With several stages, one that is not the slowest
// waits in any case: then its time per micro-batch may count more or less than its synchronisation,
// which others hide.
std::vector<StageObjective> Objectives(const StageTables& tables) {
  const StageObjective whole = tables.WholeStep();
  if (tables.pipeline_parallel_degree() == 1) return {whole};
  const double bubble = tables.pipeline_parallel_degree() - 1;
  return {whole, {whole.repeat_count + bubble, 1.0}, {whole.repeat_count, 0.0}};
}

class CandidateSearch {
 public:
  CandidateSearch(const PlanningProblem& problem, const CostModel& costs, const StageTables& tables,
                  SearchMeter& meter, std::optional<PredictedPlan>& best)
      : problem_(problem),
        costs_(costs),
        tables_(tables),
        meter_(meter),
        best_(best),
        budget_(costs.searched_group().overheads().TensorBudget(
            problem.usable_memory(), tables.pipeline_parallel_degree(), RanksPerStage())),
        solver_(tables, budget_, meter),
        evaluator_(problem, costs) {}

  CandidateOutcome Run() {
    const Partition even = Even();
    CandidateOutcome outcome;
    const std::optional<LeastMemory> known = tables_.LeastMemoryOfStages(meter_);
    if (!known.has_value()) return outcome;
    const LeastMemory& memory = *known;
    const std::vector<int>& definitions = problem_.model().definition_of_layer();
    const std::optional<Partition> only = OnlyPartition(even, memory);
    const std::optional<MemoryBalancedPartition> by_memory =
        only ? MemoryBalancedPartition{*only, LeastMemoryOf(definitions, memory, *only)}
             : MemoryBalancedSplit(definitions, memory, even, meter_.Worker());
    if (meter_.stopped() && !by_memory.has_value()) return outcome;
    PARPLAN_CHECK(by_memory.has_value());
    const MemoryOverheads& overheads = costs_.searched_group().overheads();
    outcome.smallest_usable_memory = overheads.Upper(overheads.DeviceMemory(
        by_memory->largest_stage, tables_.pipeline_parallel_degree(), RanksPerStage()));
    if (outcome.smallest_usable_memory > problem_.usable_memory()) {
      outcome.proved_bound = Seconds::Infinite();
      outcome.smallest_usable_memory = TryLeast(by_memory->layer_counts);
      return outcome;
    }
    for (const StageObjective& objective : Objectives(tables_)) {
      for (const Partition& partition :
           only ? std::vector<Partition>{*only}
                : Partitions(objective, even, memory, by_memory->layer_counts)) {
        // The time is over, and there is a plan to answer with.
        if (best_.has_value() && !meter_.ShouldContinue()) return outcome;
        Try(partition, objective);
      }
    }
    if (!only) Move();
    if (!own_best_ && dropped_any_) {
      outcome.smallest_usable_memory = TryLeast(by_memory->layer_counts);
    }
    if (tables_.pipeline_parallel_degree() == 1 && !meter_.stopped() && !dropped_any_) {
      // The only stage is given up only if it is slower than the best plan.
      outcome.proved_bound = own_best_ ? own_best_->prediction.step : best_->prediction.step;
    }
    return outcome;
  }

 private:
  int RanksPerStage() const { return problem_.device_count() / tables_.pipeline_parallel_degree(); }

  Partition Even() const {
    std::vector<char> is_transformer;
    for (int layer = 0; layer < problem_.model().layer_count(); ++layer) {
      is_transformer.push_back(IsTransformer(problem_.model().layer(layer).kind) ? 1 : 0);
    }
    return EvenSplit(is_transformer, tables_.pipeline_parallel_degree());
  }

  // Returns the greedy balance of the least memory on the first stage.
  Partition Greedy(const Partition& even, const LeastMemory& memory) const {
    std::vector<double> layer_memory;
    for (const int definition : problem_.model().definition_of_layer()) {
      layer_memory.push_back((*memory.kept.front())[definition].back().as_double());
    }
    return GreedyMemorySplitOr(layer_memory, even);
  }

  // Returns the only partition that the rules leave; nothing if there is a choice. The balances may
  // leave an end stage without a transformer layer, so that targets which ask for one have the even
  // partition alone.
  std::optional<Partition> OnlyPartition(const Partition& even, const LeastMemory& memory) const {
    const Partitioner partitioner = problem_.rules().partitioner;
    if (!problem_.dimensions().has(SearchDimension::kUnevenStages) ||
        LimitsOf(problem_.rules().target).transformer_in_each_stage ||
        partitioner == Partitioner::kEven) {
      return even;
    }
    if (partitioner != Partitioner::kGreedy) return std::nullopt;
    return Greedy(even, memory);
  }

  // Returns the partitions to try, without repetition.
  std::vector<Partition> Partitions(const StageObjective& objective, const Partition& even,
                                    const LeastMemory& memory, const Partition& by_memory) const {
    std::vector<Partition> partitions;
    const auto add = [&partitions](const Partition& partition) {
      if (std::find(partitions.begin(), partitions.end(), partition) == partitions.end()) {
        partitions.push_back(partition);
      }
    };
    const Partition by_time = TimeBalancedSplit(tables_.FastestLayerTimes(objective), even);
    add(by_time);
    add(even);
    add(by_memory);
    add(Greedy(even, memory));
    const std::optional<Partition> limited =
        MemoryLimitedSplit(problem_.model().definition_of_layer(), memory, budget_, by_time);
    if (limited) add(*limited);
    return partitions;
  }

  // Returns whether the plan is the best of this candidate so far.
  bool Try(const Partition& partition, const StageObjective& objective) {
    std::optional<Plan> plan = PlanOf(problem_, tables_, partition, objective, solver_, best_);
    if (!plan) return false;
    PredictedPlan predicted{*std::move(plan), {}};
    predicted.prediction = evaluator_.Predict(predicted.plan);
    // The tables do not include all memory a runtime keeps, so the plan may not fit.
    if (!predicted.prediction.fits()) {
      dropped_any_ = true;
      return false;
    }
    if (!best_ || IsBetterPlan(predicted, *best_)) best_ = predicted;
    if (own_best_ && !IsBetterPlan(predicted, *own_best_)) return false;
    own_best_ = std::move(predicted);
    own_partition_ = partition;
    own_objective_ = objective;
    return true;
  }

  // Returns the memory, as far as the tables show, of the plan whose stages each hold the least.
  // The plan is tried like others, so with that memory there is a plan.
  Bytes TryLeast(const Partition& partition) {
    Plan plan{.device_count = problem_.device_count(),
              .global_batch_size = problem_.global_batch_size(),
              .micro_batch_count = tables_.micro_batch_count(),
              .schedule = tables_.schedule()};
    int first_layer = 0;
    for (int index = 0; index < static_cast<int>(partition.size()); ++index) {
      const StageChoices choices =
          tables_.ChoicesOfStage(first_layer, partition[index], index, tables_.WholeStep());
      const SearchControl no_limit;
      SearchMeter unlimited(no_limit);
      const auto least = AssignStrategies(choices, SmallestBudget(choices), unlimited);
      plan.stages.push_back(
          StageOf(problem_, tables_, first_layer, std::get<StageAssignment>(least)));
      plan.stages.back().first_rank = index * RanksPerStage();
      plan.stages.back().rank_count = RanksPerStage();
      first_layer += partition[index];
    }
    PredictedPlan predicted{std::move(plan), {}};
    predicted.prediction = evaluator_.Predict(predicted.plan);
    const Bytes needed = predicted.prediction.peak_memory_upper;
    if (needed <= problem_.usable_memory() && (!best_ || IsBetterPlan(predicted, *best_))) {
      best_ = std::move(predicted);
    }
    return needed;
  }

  // Moves layers between stages as long as the plan gets better. All partitions of a round of moves
  // are solved for the objective of the best plan before it.
  void Move() {
    const int stage_count = tables_.pipeline_parallel_degree();
    if (!own_best_ || stage_count == 1) return;
    StageObjective objective;
    MoveLayers(
        own_partition_, MoveTrialCount(stage_count, tables_.micro_batch_count()),
        [&] {
          objective = own_objective_;
          return SlowestStage();
        },
        [&](const Partition& moved) { return !meter_.stopped() && Try(moved, objective); });
  }

  int SlowestStage() const {
    const auto work = [this](const StagePrediction& stage) {
      return (stage.forward + stage.backward) * static_cast<double>(tables_.micro_batch_count()) +
             stage.gradient_sync + stage.optimizer_step;
    };
    const std::vector<StagePrediction>& stages = own_best_->prediction.stages;
    return static_cast<int>(
        std::max_element(stages.begin(), stages.end(),
                         [&work](const StagePrediction& a, const StagePrediction& b) {
                           return work(a) < work(b);
                         }) -
        stages.begin());
  }

  const PlanningProblem& problem_;
  const CostModel& costs_;
  const StageTables& tables_;
  SearchMeter& meter_;
  std::optional<PredictedPlan>& best_;
  const Bytes budget_;
  StageSolver solver_;
  PlanEvaluator evaluator_;
  // The best plan of this candidate, with its partition and objective below.
  std::optional<PredictedPlan> own_best_;
  // Whether some plan of the tables did not fit after all, so that nothing is proved about the
  // rest.
  bool dropped_any_ = false;
  Partition own_partition_;
  StageObjective own_objective_;
};

}  // namespace

CandidateOutcome SearchCandidate(const PlanningProblem& problem, const CostModel& costs,
                                 const StageTables& tables, SearchMeter& meter,
                                 std::optional<PredictedPlan>& best) {
  return CandidateSearch(problem, costs, tables, meter, best).Run();
}

}  // namespace parplan
