#include "planner/planners/baselines/uniform_search.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/cost/predict_plan.h"
#include "planner/model/device_memory.h"
#include "planner/model/strategy_fields.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/base/search_numbers.h"
#include "planner/search/space/strategy_space.h"
#include "planner/search/space/strategy_tree.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13, "say whether the new field follows from the layer");

// All plans with these numbers.
struct Cell {
  int64_t global_batch_size = 1;
  int pipeline_parallel_degree = 1;
  int virtual_stage_count = 1;
  int64_t micro_batch_count = 1;
  Schedule schedule = kDefaultSchedule;
  // Lower bound of the time per sample of its plans.
  Seconds bound_per_sample;

  int64_t micro_batch_size() const { return global_batch_size / micro_batch_count; }
};

bool MorePromisingCell(const Cell& a, const Cell& b) {
  const auto key = [](const Cell& c) {
    return std::tie(c.bound_per_sample, c.global_batch_size, c.pipeline_parallel_degree,
                    c.virtual_stage_count, c.micro_batch_count, c.schedule);
  };
  return key(a) < key(b);
}

// The strategy of the transformer layers, as each definition has it, and those of the other layers.
struct Choice {
  // [definition]
  std::vector<Strategy> strategies;
  // Time of all transformer layers together: one micro-batch, and once per step.
  Seconds work;
  Seconds sync;
};

// Returns whether two strategies agree except for expert and sequence parallelism, which follow
// from the layer.
bool Alike(Strategy a, Strategy b) {
  a.sequence_parallel = b.sequence_parallel = false;
  a.expert_parallel_degree = b.expert_parallel_degree = 1;
  a.expert_tensor_parallel_degree = b.expert_tensor_parallel_degree = 0;
  return a == b;
}

class UniformSearch {
 public:
  UniformSearch(const PlanningProblem& problem, const CostModel& costs, const UniformGrid& grid,
                const SearchControl& control)
      : problem_(WithDimensions(problem, grid.dimensions)),
        costs_(costs),
        grid_(grid),
        control_(control),
        meter_(control),
        space_(problem_, costs),
        evaluator_(problem_, costs) {
    const ModelSpec& model = problem_.model();
    while (first_ < model.layer_count() && !IsTransformer(model.layer(first_).kind)) ++first_;
    end_ = model.layer_count();
    while (end_ > first_ && !IsTransformer(model.layer(end_ - 1).kind)) --end_;
    for (int layer = first_; layer < end_; ++layer) {
      if (IsTransformer(model.layer(layer).kind)) transformer_layers_.push_back(layer);
    }
  }

  std::optional<PlanningResult> Run() {
    ListCells();
    if (cells_.empty() && !meter_.stopped()) return std::nullopt;
    std::sort(cells_.begin(), cells_.end(), MorePromisingCell);
    for (; next_ < cells_.size() && meter_.ShouldContinue(); ++next_) {
      const Cell& cell = cells_[next_];
      if (best_ && cell.bound_per_sample > best_per_sample_) {
        meter_.Prune(static_cast<int64_t>(cells_.size() - next_));
        next_ = cells_.size();
        break;
      }
      if (!Visit(cell)) break;
      Report();
    }
    return Result();
  }

 private:
  static PlanningProblem WithDimensions(const PlanningProblem& problem, DimensionSet dimensions) {
    PlanningRules rules = problem.rules();
    rules.dimensions = rules.dimensions & dimensions;
    rules.dimensions = rules.dimensions.Without(SearchDimension::kPerLayer)
                           .Without(SearchDimension::kEndStrategies)
                           .Without(SearchDimension::kUnevenStages);
    return problem.WithRules(rules);
  }

  void ListCells() {
    const auto transformer_count = static_cast<int>(transformer_layers_.size());
    if (transformer_count == 0) return;
    for (const int64_t batch : problem_.GlobalBatchSizes()) {
      for (const int depth : space_.PipelineDegrees()) {
        for (const int64_t count : space_.MicroBatchCounts(batch)) {
          for (const Schedule schedule : space_.Schedules(depth)) {
            const bool interleaves = TraitsOf(schedule).has_virtual_stages;
            if (TraitsOf(schedule).needs_whole_groups && count % depth != 0) continue;
            const int max_chunks = interleaves ? std::min(transformer_count / depth,
                                                          space_.target().most_virtual_stages)
                                               : 1;
            for (int chunks = interleaves ? 2 : 1; chunks <= max_chunks; ++chunks) {
              if (!meter_.ShouldContinue()) return;
              if (transformer_count % (depth * chunks) != 0) continue;
              if (count > kMaxForwardPassCount / (int64_t{depth} * chunks)) continue;
              AddCell({batch, depth, chunks, count, schedule, Seconds()});
            }
          }
        }
      }
    }
    listed_all_ = true;
  }

  void AddCell(Cell cell) {
    const std::vector<Choice>& choices = ChoicesOf(cell);
    if (choices.empty()) return;
    Seconds least = Seconds::Infinite();
    for (const Choice& choice : choices) least = std::min(least, Bound(cell, choice));
    cell.bound_per_sample = least / static_cast<double>(cell.global_batch_size);
    cells_.push_back(cell);
  }

  // The busiest device does at least its share of all transformer layers.
  Seconds Bound(const Cell& cell, const Choice& choice) const {
    const Seconds all = choice.work * static_cast<double>(cell.micro_batch_count) + choice.sync;
    return all / static_cast<double>(cell.pipeline_parallel_degree) * (1.0 - 1e-12);
  }

  // Returns the choices, stored by pipeline degree and micro-batch size, on which alone they
  // depend.
  const std::vector<Choice>& ChoicesOf(const Cell& cell) {
    const auto [slot, is_new] =
        choices_.try_emplace({cell.pipeline_parallel_degree, cell.micro_batch_size()});
    if (is_new) {
      for (const Strategy& strategy :
           space_.Strategies(problem_.model().definition_of_layer()[first_],
                             cell.pipeline_parallel_degree, cell.micro_batch_size())) {
        if (!grid_.allows(strategy)) continue;
        Choice choice;
        choice.strategies.resize(problem_.model().layer_definitions().size());
        AddChoices(cell, strategy, 0, choice, slot->second);
      }
    }
    return slot->second;
  }

  // Adds all combinations in which the definitions from `definition` on agree with `leader`. Some
  // are missing once the meter has stopped.
  void AddChoices(const Cell& cell, const Strategy& leader, int definition, Choice& choice,
                  std::vector<Choice>& choices) {
    const ModelSpec& model = problem_.model();
    if (definition == static_cast<int>(model.layer_definitions().size())) {
      choices.push_back(choice);
      Price(cell, choices.back());
      return;
    }
    const std::vector<int>& layers = model.definition_of_layer();
    const bool is_used = std::find(layers.begin(), layers.end(), definition) != layers.end();
    if (!is_used) return AddChoices(cell, leader, definition + 1, choice, choices);
    Strategy wanted = leader;
    if (!IsTransformer(model.layer_definitions()[definition].kind)) {
      wanted.set_recomputation(RecomputeLevel::kNone);
    }
    const std::vector<Strategy> strategies =
        space_.Strategies(definition, cell.pipeline_parallel_degree, cell.micro_batch_size());
    // Listing a strategy takes about as long as looking at 20, and so does comparing one with the
    // choices of all definitions before.
    if (!meter_.Work(20 * (static_cast<int64_t>(strategies.size()) + definition))) return;
    for (const Strategy& strategy : strategies) {
      const bool is_leader = definition == layers[first_];
      if (is_leader ? strategy != leader : !Alike(strategy, wanted)) continue;
      bool goes_with_others = true;
      for (int other = 0; other < definition && goes_with_others; ++other) {
        goes_with_others = std::find(layers.begin(), layers.end(), other) == layers.end() ||
                           space_.GoTogether(other, choice.strategies[other], definition, strategy);
      }
      if (!goes_with_others) continue;
      choice.strategies[definition] = strategy;
      AddChoices(cell, leader, definition + 1, choice, choices);
    }
  }

  void Price(const Cell& cell, Choice& choice) const {
    const std::vector<int>& layers = problem_.model().definition_of_layer();
    std::vector<int> count(choice.strategies.size());
    for (const int layer : transformer_layers_) ++count[layers[layer]];
    for (int definition = 0; definition < static_cast<int>(count.size()); ++definition) {
      if (count[definition] == 0) continue;
      const LayerCost cost = costs_.searched_group().CostOfLayer(
          definition, choice.strategies[definition], cell.micro_batch_size(),
          cell.pipeline_parallel_degree);
      const auto times = static_cast<double>(count[definition]);
      choice.work += (cost.forward + cost.backward) * times;
      choice.sync += (cost.gradient_sync + cost.optimizer_step) * times;
    }
  }

  Plan PlanOf(const Cell& cell, const Choice& choice) const {
    Plan plan;
    plan.device_count = problem_.device_count();
    plan.global_batch_size = cell.global_batch_size;
    plan.micro_batch_count = cell.micro_batch_count;
    plan.schedule = cell.schedule;
    plan.virtual_stage_count = cell.virtual_stage_count;
    const int ranks = problem_.device_count() / cell.pipeline_parallel_degree;
    const int stage_count = cell.pipeline_parallel_degree * cell.virtual_stage_count;
    const size_t share = transformer_layers_.size() / static_cast<size_t>(stage_count);
    const std::vector<int>& layers = problem_.model().definition_of_layer();
    int layer = 0;
    for (int index = 0; index < stage_count; ++index) {
      StagePlan& stage = plan.stages.emplace_back();
      stage.rank_count = ranks;
      stage.first_rank = index % cell.pipeline_parallel_degree * ranks;
      const int end = index + 1 == stage_count
                          ? static_cast<int>(layers.size())
                          : transformer_layers_[share * static_cast<size_t>(index + 1) - 1] + 1;
      for (; layer < end; ++layer) {
        const bool continues = !stage.layer_runs.empty() && layers[layer] == layers[layer - 1];
        if (!continues) {
          stage.layer_runs.push_back({layer, 0, choice.strategies[layers[layer]]});
        }
        ++stage.layer_runs.back().layer_count;
      }
    }
    return plan;
  }

  // Visits the plans of a cell. Returns false if the search must end.
  bool Visit(const Cell& cell) {
    const auto batch = static_cast<double>(cell.global_batch_size);
    for (const Choice& choice : ChoicesOf(cell)) {
      if (best_ && Bound(cell, choice) / batch > best_per_sample_) {
        meter_.Prune(1);
        continue;
      }
      if (!meter_.Expand(1)) return false;
      PredictedPlan predicted{PlanOf(cell, choice), {}};
      const PlanScore score = evaluator_.Evaluate(predicted.plan);
      if (score.peak_memory_upper < smallest_usable_memory_) {
        smallest_usable_memory_ = score.peak_memory_upper;
        smallest_plan_ = predicted.plan;
      }
      if (score.peak_memory_upper > problem_.usable_memory()) continue;
      predicted.prediction.step = score.step;
      predicted.prediction.peak_memory = score.peak_memory;
      if (best_ && !IsBetterPlan(predicted, *best_)) continue;
      best_ = std::move(predicted);
      best_per_sample_ = score.step / batch;
    }
    return true;
  }

  Seconds BoundOfAll() const {
    if (!listed_all_) return Seconds();
    Seconds bound = best_ ? best_per_sample_ : Seconds::Infinite();
    if (next_ < cells_.size()) bound = std::min(bound, cells_[next_].bound_per_sample);
    if (!bound.is_finite()) return Seconds();
    if (best_ && bound == best_per_sample_) return best_->prediction.step;
    return bound * static_cast<double>(best_ ? best_->plan.global_batch_size
                                             : problem_.global_batch_size());
  }

  void Report() const {
    if (!control_.on_progress) return;
    SearchProgress progress{.done_candidate_count = static_cast<int64_t>(next_) + 1,
                            .total_candidate_count = static_cast<int64_t>(cells_.size()),
                            .bound = BoundOfAll(),
                            .expanded_state_count = meter_.expanded_state_count()};
    if (best_) progress.incumbent = best_->prediction.step;
    control_.on_progress(progress);
  }

  PlanningResult Result() {
    SearchSummary summary{.bound = BoundOfAll(),
                          .expanded_state_count = meter_.expanded_state_count(),
                          .pruned_state_count = meter_.pruned_state_count(),
                          .candidate_count = static_cast<int64_t>(cells_.size())};
    bool proved = !meter_.stopped();
    summary.gap_ratio = proved ? 0.0 : 1.0;
    if (best_) {
      const Seconds step = best_->prediction.step;
      summary.gap_ratio = std::clamp((step - summary.bound) / step, 0.0, 1.0);
      proved = summary.bound >= step * (1.0 - kProofTolerance);
    }
    summary.termination = proved ? Termination::kOptimal : Termination::kFeasible;
    summary.limit = proved ? SearchLimit::kNone : meter_.limit();
    if (best_) {
      best_->prediction = evaluator_.Predict(best_->plan);
      return PlanFound{.plan = std::move(best_->plan),
                       .prediction = std::move(best_->prediction),
                       .search = summary,
                       .alternatives = {},
                       .memory_front = {},
                       .notes = {}};
    }
    if (meter_.stopped()) return StoppedEmpty{summary};
    return NothingFits{.smallest_usable_memory = smallest_usable_memory_,
                       .smallest_device_memory = DeviceMemoryFor(problem_, smallest_usable_memory_),
                       .memory_is_proved = true,
                       .smallest_plan = std::move(smallest_plan_),
                       .smallest_device_count = std::nullopt,
                       .search = summary};
  }

  const PlanningProblem problem_;
  const CostModel& costs_;
  const UniformGrid& grid_;
  const SearchControl& control_;
  SearchMeter meter_;
  const StrategySpace space_;
  PlanEvaluator evaluator_;
  // The first transformer layer, one past the last one, and all of them.
  int first_ = 0;
  int end_ = 0;
  std::vector<int> transformer_layers_;
  std::map<std::pair<int, int64_t>, std::vector<Choice>> choices_;
  std::vector<Cell> cells_;
  // False if the search was stopped while it listed cells.
  bool listed_all_ = false;
  // Index of the next cell.
  size_t next_ = 0;
  std::optional<PredictedPlan> best_;
  Seconds best_per_sample_ = Seconds::Infinite();
  Bytes smallest_usable_memory_ = Bytes::Max();
  std::optional<Plan> smallest_plan_;
};

}  // namespace

std::optional<PlanningResult> SearchUniform(const PlanningProblem& problem, const CostModel& costs,
                                            const UniformGrid& grid, const SearchControl& control) {
  return UniformSearch(problem, costs, grid, control).Run();
}

}  // namespace parplan
