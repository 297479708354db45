#include "planner/planners/ilp/nearest_plan.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "planner/model/strategy_fields.h"
#include "planner/model/tied_table.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13, "say whether planners by operators search the new field");

bool IsPowerOfTwo(int value) { return (value & (value - 1)) == 0; }

bool SplitsLayer(const ModelSpec& model, const LayerDefinition& layer, int degree) {
  if (degree == 1) return true;
  if (IsTransformer(layer.kind)) return SplitsOverTensorRanks(layer, degree);
  const std::vector<LayerDefinition>& all = model.layer_definitions();
  return layer.hidden_size % degree == 0 &&
         std::any_of(all.begin(), all.end(), [degree](const LayerDefinition& other) {
           return IsTransformer(other.kind) && SplitsOverTensorRanks(other, degree);
         });
}

bool AllowsLevel(DimensionSet dimensions, ShardingLevel level) {
  switch (level) {
    case ShardingLevel::kNone:
      return true;
    case ShardingLevel::kOptimizer:
      return dimensions.has(SearchDimension::kOptimizerSharding);
    case ShardingLevel::kGradients:
      return dimensions.has(SearchDimension::kGradientSharding);
    case ShardingLevel::kParameters:
      return dimensions.has(SearchDimension::kParameterSharding);
  }
  return false;
}

class PlanMapper {
 public:
  PlanMapper(const PlanningProblem& problem, const CostModel& costs,
             const std::vector<LayerShare>& shares, const BatchCut& cut)
      : problem_(problem), costs_(costs), shares_(shares), cut_(cut) {
    const int count = static_cast<int>(problem.model().layer_definitions().size());
    for (int index = 0; index < count; ++index) {
      allowed_.push_back(OneStageStrategies(problem, costs, index, cut.micro_batch_size));
    }
    if (LimitsOf(problem.rules().target).one_sequence_parallel) AgreeOnSequenceParallel();
  }

  std::optional<Plan> Map() {
    const ModelSpec& model = problem_.model();
    const DimensionSet dimensions = problem_.dimensions();
    std::vector<std::optional<Strategy>> chosen(allowed_.size());
    std::vector<int> transformers;
    for (int index = 0; index < static_cast<int>(allowed_.size()); ++index) {
      if (allowed_[index].empty()) return std::nullopt;
      chosen[index] = Nearest({index});
      if (IsTransformer(model.layer_definitions()[index].kind)) transformers.push_back(index);
    }
    if (!dimensions.has(SearchDimension::kPerLayer) && !transformers.empty()) {
      const std::optional<Strategy> shared = Nearest(transformers);
      if (!shared) return std::nullopt;
      for (const int index : transformers) chosen[index] = *shared;
    }
    if (const std::vector<int> leaders = TableLeaders(); leaders.size() > 1) {
      const std::optional<Strategy> shared = Nearest(leaders);
      if (!shared) return std::nullopt;
      for (const int index : leaders) chosen[index] = *shared;
    }
    Plan plan;
    plan.device_count = problem_.device_count();
    plan.global_batch_size = cut_.global_batch_size();
    plan.micro_batch_count = cut_.micro_batch_count;
    plan.schedule = problem_.rules().schedule.value_or(kDefaultSchedule);
    plan.stages.resize(1);
    plan.stages[0].rank_count = plan.device_count;
    std::vector<Strategy> strategies;
    for (const int index : model.definition_of_layer()) strategies.push_back(Own(index, chosen));
    if (!dimensions.has(SearchDimension::kEndStrategies) && !FollowNeighbours(strategies)) {
      return std::nullopt;
    }
    for (int layer = 0; layer < model.layer_count(); ++layer) {
      std::vector<StageLayerRun>& runs = plan.stages[0].layer_runs;
      const bool continues =
          layer > 0 &&
          model.definition_of_layer()[layer] == model.definition_of_layer()[layer - 1] &&
          strategies[layer] == strategies[layer - 1];
      if (continues) {
        ++runs.back().layer_count;
      } else {
        runs.push_back({layer, 1, strategies[layer]});
      }
    }
    return plan;
  }

 private:
  // Splits only definitions that have the sequence parallelism of the first transformer layer.
  void AgreeOnSequenceParallel() {
    const std::vector<LayerDefinition>& definitions = problem_.model().layer_definitions();
    const auto first =
        std::find_if(definitions.begin(), definitions.end(),
                     [](const LayerDefinition& layer) { return IsTransformer(layer.kind); });
    if (first == definitions.end()) return;
    const bool wanted =
        costs_.searched_group().sequence_parallel(static_cast<int>(first - definitions.begin()));
    for (std::vector<Strategy>& allowed : allowed_) {
      std::erase_if(allowed, [wanted](const Strategy& strategy) {
        return strategy.tensor_parallel_degree > 1 && strategy.sequence_parallel != wanted;
      });
    }
  }

  // Returns the chosen strategy with the parts that follow from the definition.
  Strategy Own(int index, const std::vector<std::optional<Strategy>>& chosen) const {
    return OfDefinition(*chosen[index], index);
  }
  Strategy OfDefinition(Strategy strategy, int index) const {
    strategy.sequence_parallel =
        strategy.tensor_parallel_degree > 1 && costs_.searched_group().sequence_parallel(index);
    return strategy;
  }

  // Returns distance and time of a strategy for a definition, in the order of comparison.
  std::pair<int64_t, Seconds> Judge(int index, const Strategy& strategy) const {
    // Distances that differ by less than one percent of the share count as equal, so that time
    // decides.
    constexpr double kGrain = 0.01;
    const LayerCost cost =
        costs_.searched_group().CostOfLayer(index, strategy, cut_.micro_batch_size, 1);
    const LayerShare& share = shares_[index];
    const double distance = std::fabs(cost.states().as_double() - share.state_bytes) +
                            std::fabs(cost.memory.kept.as_double() - share.kept_bytes);
    const double whole = std::max(1.0, share.state_bytes + share.kept_bytes);
    const Seconds time =
        (cost.forward + cost.backward) * static_cast<double>(cut_.micro_batch_count) +
        cost.gradient_sync + cost.optimizer_step;
    // Stays within int64_t.
    constexpr double kFarthest = 1e15;
    return {static_cast<int64_t>(std::min(kFarthest, distance / whole / kGrain)), time};
  }

  // Returns the nearest strategy that all of `definitions` allow.
  std::optional<Strategy> Nearest(const std::vector<int>& definitions) const {
    std::optional<Strategy> best;
    std::pair<int64_t, Seconds> best_key;
    for (const Strategy& strategy : allowed_[definitions.front()]) {
      std::pair<int64_t, Seconds> key;
      bool allowed_everywhere = true;
      for (const int index : definitions) {
        const Strategy own = OfDefinition(strategy, index);
        allowed_everywhere &=
            std::binary_search(allowed_[index].begin(), allowed_[index].end(), own);
        if (!allowed_everywhere) break;
        const auto [distance, time] = Judge(index, own);
        key.first += distance;
        key.second += time;
      }
      if (!allowed_everywhere || (best && key >= best_key)) continue;
      best = strategy;
      best_key = key;
    }
    return best;
  }

  // Returns definitions that share one strategy because layers with the tied table, or at ends that
  // the target wants alike, have it or follow them.
  std::vector<int> TableLeaders() const {
    const ModelSpec& model = problem_.model();
    const DimensionSet dimensions = problem_.dimensions();
    const bool own_ends = dimensions.has(SearchDimension::kEndStrategies);
    const bool ends_alike = LimitsOf(problem_.rules().target).ends_alike;
    std::vector<int> leaders;
    // All transformer layers are alike in this case.
    if (!own_ends && !dimensions.has(SearchDimension::kPerLayer)) return leaders;
    for (int layer = 0; layer < model.layer_count(); ++layer) {
      const bool is_bound_end = ends_alike && !IsTransformer(model.layer(layer).kind);
      if (!is_bound_end && !HoldsTiedTable(model, model.definition_of_layer()[layer])) continue;
      const int neighbour = own_ends ? layer : NeighbourOf(layer);
      const int leader = model.definition_of_layer()[neighbour < 0 ? layer : neighbour];
      if (std::find(leaders.begin(), leaders.end(), leader) == leaders.end()) {
        leaders.push_back(leader);
      }
    }
    return leaders;
  }

  // Returns the nearest transformer layer after a layer, or before it if there is none after; -1 if
  // there is none.
  int NeighbourOf(int layer) const {
    const ModelSpec& model = problem_.model();
    const auto is_transformer = [&](int index) { return IsTransformer(model.layer(index).kind); };
    int neighbour = layer;
    while (neighbour < model.layer_count() && !is_transformer(neighbour)) ++neighbour;
    if (neighbour < model.layer_count()) return neighbour;
    neighbour = layer;
    while (neighbour >= 0 && !is_transformer(neighbour)) --neighbour;
    return neighbour;
  }

  // Gives every other layer the strategy of its neighbour. Returns false if it does not apply.
  bool FollowNeighbours(std::vector<Strategy>& strategies) const {
    const ModelSpec& model = problem_.model();
    for (int layer = 0; layer < model.layer_count(); ++layer) {
      if (IsTransformer(model.layer(layer).kind)) continue;
      const int neighbour = NeighbourOf(layer);
      if (neighbour < 0) return true;
      const int index = model.definition_of_layer()[layer];
      strategies[layer] = OfDefinition(strategies[neighbour], index);
      if (!std::binary_search(allowed_[index].begin(), allowed_[index].end(), strategies[layer])) {
        return false;
      }
    }
    return true;
  }

  const PlanningProblem& problem_;
  const CostModel& costs_;
  const std::vector<LayerShare>& shares_;
  const BatchCut& cut_;
  std::vector<std::vector<Strategy>> allowed_;  // [definition]
};

}  // namespace

std::vector<Strategy> OneStageStrategies(const PlanningProblem& problem, const CostModel& costs,
                                         int definition_index, int64_t micro_batch_size) {
  const DimensionSet dimensions = problem.dimensions();
  const TargetLimits& limits = LimitsOf(problem.rules().target);
  const LayerDefinition& layer = problem.model().layer_definitions()[definition_index];
  const int ranks = problem.device_count();
  std::vector<Strategy> strategies;
  for (int tensor = 1; tensor <= std::min(ranks, problem.max_tensor_parallel_degree()); ++tensor) {
    if (ranks % tensor != 0) continue;
    const int data = ranks / tensor;
    if (tensor > 1 && !dimensions.has(SearchDimension::kTensor)) break;
    if (limits.only_powers_of_two && (!IsPowerOfTwo(tensor) || !IsPowerOfTwo(data))) continue;
    if (micro_batch_size % data != 0 || !SplitsLayer(problem.model(), layer, tensor)) continue;
    const bool has_order = tensor > 1 && data > 1 && dimensions.has(SearchDimension::kRankOrder);
    for (const RankOrder order : {RankOrder::kTensorInnermost, RankOrder::kDataInnermost}) {
      if (order == RankOrder::kDataInnermost && !has_order) continue;
      for (const ShardingLevel level : {ShardingLevel::kNone, ShardingLevel::kOptimizer,
                                        ShardingLevel::kGradients, ShardingLevel::kParameters}) {
        if (level != ShardingLevel::kNone && (data == 1 || !AllowsLevel(dimensions, level))) {
          continue;
        }
        // If plans have one level below that of parameters, it is none, which needs no choice.
        if (limits.one_level_below_parameters && level == ShardingLevel::kGradients) continue;
        Strategy strategy;
        strategy.tensor_parallel_degree = tensor;
        strategy.data_parallel_degree = data;
        strategy.rank_order = order;
        strategy.sharding_level = level;
        if (!AllowsCombination(limits, strategy, layer.expert_count > 0, /*has_pipeline=*/false,
                               /*with_level=*/true)) {
          continue;
        }
        strategy.sequence_parallel =
            tensor > 1 && costs.searched_group().sequence_parallel(definition_index);
        if (!SplitsAsAllowed(limits, strategy, HasExperts(problem.model())) ||
            !SharesAsAllowed(limits, layer, strategy)) {
          continue;
        }
        strategies.push_back(strategy);
      }
    }
  }
  return strategies;
}

std::optional<Plan> NearestPlan(const PlanningProblem& problem, const CostModel& costs,
                                const std::vector<LayerShare>& shares, const BatchCut& cut) {
  return PlanMapper(problem, costs, shares, cut).Map();
}

}  // namespace parplan
