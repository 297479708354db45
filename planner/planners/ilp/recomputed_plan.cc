#include "planner/planners/ilp/recomputed_plan.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "planner/search/space/strategy_space.h"

namespace parplan {
namespace {

class LayerRecomputation {
 public:
  LayerRecomputation(const PlanningProblem& problem, const CostModel& costs, const Plan& plan,
                     Bytes usable, PlanEvaluator& evaluator, const SearchControl& control)
      : problem_(problem),
        costs_(costs),
        plan_(plan),
        usable_(usable),
        evaluator_(evaluator),
        control_(control),
        micro_batch_size_(plan.global_batch_size / plan.micro_batch_count) {
    for (const StageLayerRun& run : plan.stages[0].layer_runs) {
      for (int i = 0; i < run.layer_count; ++i) strategies_.push_back(run.strategy);
    }
  }

  std::optional<Plan> Run() {
    if (Fits(plan_)) return plan_;
    std::optional<PredictedPlan> best;
    for (const RecomputeLevel level : {RecomputeLevel::kSelective, RecomputeLevel::kFull}) {
      std::optional<Plan> plan = LeastAt(level);
      if (!plan) continue;
      const PlanScore score = evaluator_.Evaluate(*plan);
      PredictedPlan found{*std::move(plan), {}};
      found.prediction.step = score.step;
      found.prediction.peak_memory = score.peak_memory;
      found.prediction.peak_memory_upper = score.peak_memory_upper;
      if (!best || ComesFirst(found, *best)) best = std::move(found);
      if (best->prediction.peak_memory_upper <= usable_ && MustStop()) break;
    }
    if (!best) return std::nullopt;
    return std::move(best->plan);
  }

 private:
  // A layer that may recompute, and what that takes.
  struct Layer {
    double seconds_per_byte = 0.0;
    int index = 0;
  };

  bool MustStop() const { return control_.should_stop && control_.should_stop(); }

  bool Fits(const Plan& plan) { return evaluator_.Evaluate(plan).peak_memory_upper <= usable_; }

  // Returns whether `a` fits and `b` does not, or is better, or needs less if neither fits.
  bool ComesFirst(const PredictedPlan& a, const PredictedPlan& b) const {
    const Bytes upper_of_a = a.prediction.peak_memory_upper;
    const Bytes upper_of_b = b.prediction.peak_memory_upper;
    if (upper_of_a <= usable_ && upper_of_b <= usable_) return IsBetterPlan(a, b);
    return upper_of_a < upper_of_b;
  }

  // Returns the plan in which the fewest layers recompute at this level so that it fits, or all of
  // them if it never does; nothing if none may.
  std::optional<Plan> LeastAt(RecomputeLevel level) {
    const std::vector<Layer> layers = LayersAt(level);
    if (layers.empty()) return std::nullopt;
    const bool alike = !problem_.dimensions().has(SearchDimension::kPerLayer);
    int least = alike ? static_cast<int>(layers.size()) : 1;
    int most = static_cast<int>(layers.size());
    if (!Fits(With(layers, most, level))) return With(layers, most, level);
    while (least < most && !MustStop()) {
      const int middle = (least + most) / 2;
      if (Fits(With(layers, middle, level))) {
        most = middle;
      } else {
        least = middle + 1;
      }
    }
    return With(layers, most, level);
  }

  // Returns the layers that may recompute at this level, in the order in which they begin to.
  std::vector<Layer> LayersAt(RecomputeLevel level) {
    const StrategySpace space(problem_, costs_);
    const bool alike = !problem_.dimensions().has(SearchDimension::kPerLayer);
    std::vector<Layer> layers;
    for (int layer = 0; layer < problem_.model().layer_count(); ++layer) {
      if (!IsTransformer(problem_.model().layer(layer).kind)) continue;
      const int definition = problem_.model().definition_of_layer()[layer];
      Strategy strategy = strategies_[layer];
      strategy.recompute_level = level;
      const auto [known, is_new] = allowed_.try_emplace(definition);
      if (is_new) known->second = space.Strategies(definition, 1, micro_batch_size_);
      if (!std::binary_search(known->second.begin(), known->second.end(), strategy)) {
        // All transformer layers must be able to.
        if (alike) return {};
        continue;
      }
      const LayerCost before = CostOf(definition, strategies_[layer]);
      const LayerCost after = CostOf(definition, strategy);
      const double saved = (before.memory.kept - after.memory.kept).as_double();
      if (saved <= 0.0 && !alike) continue;
      const double extra =
          (after.forward + after.backward - before.forward - before.backward).value();
      layers.push_back({.seconds_per_byte = extra / std::max(1.0, saved), .index = layer});
    }
    std::stable_sort(layers.begin(), layers.end(), [](const Layer& a, const Layer& b) {
      return a.seconds_per_byte < b.seconds_per_byte;
    });
    return layers;
  }

  LayerCost CostOf(int definition, const Strategy& strategy) const {
    return costs_.searched_group().CostOfLayer(definition, strategy, micro_batch_size_, 1);
  }

  // Returns the plan in which the first `count` of `layers` recompute.
  Plan With(const std::vector<Layer>& layers, int count, RecomputeLevel level) const {
    std::vector<Strategy> strategies = strategies_;
    for (int i = 0; i < count; ++i) strategies[layers[i].index].recompute_level = level;
    Plan plan = plan_;
    std::vector<StageLayerRun>& runs = plan.stages[0].layer_runs;
    runs.clear();
    const std::vector<int>& definitions = problem_.model().definition_of_layer();
    for (int layer = 0; layer < static_cast<int>(strategies.size()); ++layer) {
      const bool continues = layer > 0 && definitions[layer] == definitions[layer - 1] &&
                             strategies[layer] == strategies[layer - 1];
      if (continues) {
        ++runs.back().layer_count;
      } else {
        runs.push_back({layer, 1, strategies[layer]});
      }
    }
    return plan;
  }

  const PlanningProblem& problem_;
  const CostModel& costs_;
  const Plan& plan_;
  const Bytes usable_;
  PlanEvaluator& evaluator_;
  const SearchControl& control_;
  const int64_t micro_batch_size_;
  std::vector<Strategy> strategies_;  // [layer]
  // The strategies of each definition in one stage, listed when they are first asked for.
  std::map<int, std::vector<Strategy>> allowed_;
};

}  // namespace

std::optional<Plan> RecomputedToFit(const PlanningProblem& problem, const CostModel& costs,
                                    const Plan& plan, Bytes usable, PlanEvaluator& evaluator,
                                    const SearchControl& control) {
  return LayerRecomputation(problem, costs, plan, usable, evaluator, control).Run();
}

}  // namespace parplan
