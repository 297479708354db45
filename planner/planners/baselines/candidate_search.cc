#include "planner/planners/baselines/candidate_search.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "planner/cost/predict_plan.h"
#include "planner/search/stage/layer_assignment.h"
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

// Up to this many stages, layers are moved between any two; with more, the number of pairs would
// use up the limit of passes.
constexpr int kFewStages = 8;
// Passes of schedules simulated for moves of layers before they end. Not measured for other values.
constexpr int64_t kMaxPassesOfMoves = int64_t{1} << 21;

class CandidateSearch {
 public:
  CandidateSearch(const PlanningProblem& problem, const CostModel& costs, const StageTables& tables,
                  SearchMeter& meter, std::optional<PredictedPlan>& best)
      : problem_(problem),
        costs_(costs),
        tables_(tables),
        meter_(meter),
        best_(best),
        budget_(costs.overheads().TensorBudget(problem.usable_memory(),
                                               tables.pipeline_parallel_degree(), RanksPerStage())),
        solver_(tables, budget_, meter),
        evaluator_(problem, costs),
        is_even_(!problem.dimensions().has(SearchDimension::kUnevenStages)) {}

  CandidateOutcome Run() {
    const Partition even = Even();
    const LeastMemory memory = tables_.LeastMemoryOfStages();
    const std::optional<MemoryBalancedPartition> by_memory =
        is_even_ ? MemoryBalancedPartition{even, LeastOf(memory, even)}
                 : MemoryBalancedSplit(problem_.model().definition_of_layer(), memory, even);
    PARPLAN_CHECK(by_memory.has_value());
    CandidateOutcome outcome;
    outcome.smallest_usable_memory = costs_.overheads().Upper(costs_.overheads().DeviceMemory(
        by_memory->largest_stage, tables_.pipeline_parallel_degree(), RanksPerStage()));
    if (outcome.smallest_usable_memory > problem_.usable_memory()) {
      outcome.proved_bound = Seconds::Infinite();
      outcome.smallest_usable_memory = TryLeast(by_memory->layer_counts);
      return outcome;
    }
    for (const StageObjective& objective : Objectives(tables_)) {
      for (const Partition& partition :
           Partitions(objective, even, memory, by_memory->layer_counts)) {
        Try(partition, objective);
      }
    }
    MoveLayers();
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

  // Returns the least memory of the fullest stage of a partition.
  Bytes LeastOf(const LeastMemory& memory, const Partition& partition) const {
    Bytes fullest;
    int layer = 0;
    for (size_t stage = 0; stage < partition.size(); ++stage) {
      const int first = layer;
      layer += partition[stage];
      Bytes least = Bytes::Max();
      for (size_t cap = 0; cap < memory.caps.size(); ++cap) {
        Bytes sum = memory.caps[cap];
        for (int i = first; i < layer && sum != Bytes::Max(); ++i) {
          const Bytes kept = memory.kept[stage][problem_.model().definition_of_layer()[i]][cap];
          sum = kept == Bytes::Max() ? kept : sum + kept;
        }
        least = std::min(least, sum);
      }
      fullest = std::max(fullest, least);
    }
    return fullest;
  }

  // Returns the partitions to try, without repetition.
  std::vector<Partition> Partitions(const StageObjective& objective, const Partition& even,
                                    const LeastMemory& memory, const Partition& by_memory) const {
    if (is_even_) return {even};
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

  // Moves layers between stages, one at a time, as long as the plan gets better: from any stage if
  // there are few, else from the slowest (the adjustment of Galvatron-BMW, docs/papers.md 2.4,
  // moves to neighbours only).
  void MoveLayers() {
    const int stage_count = tables_.pipeline_parallel_degree();
    int64_t trials_left = kMaxPassesOfMoves / (stage_count * tables_.micro_batch_count());
    bool improved = own_best_.has_value() && stage_count > 1 && !is_even_;
    while (improved && !meter_.stopped()) {
      improved = false;
      const Partition start = own_partition_;
      const StageObjective objective = own_objective_;
      for (const auto& [from, to] : MovesFrom(start)) {
        if (--trials_left < 0) return;
        Partition moved = start;
        --moved[from];
        ++moved[to];
        improved |= Try(moved, objective);
      }
    }
  }

  // Returns pairs of stages, closest first.
  std::vector<std::pair<int, int>> MovesFrom(const Partition& partition) const {
    const int stage_count = static_cast<int>(partition.size());
    const int slowest = SlowestStage();
    std::vector<std::pair<int, int>> moves;
    for (int distance = 1; distance < stage_count; ++distance) {
      for (int from = 0; from < stage_count; ++from) {
        if (partition[from] == 1) continue;
        if (stage_count > kFewStages && from != slowest) continue;
        if (from - distance >= 0) moves.push_back({from, from - distance});
        if (from + distance < stage_count) moves.push_back({from, from + distance});
      }
    }
    return moves;
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
  // Whether stages must be even, regardless of cost.
  const bool is_even_;
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
