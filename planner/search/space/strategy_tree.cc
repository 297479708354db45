#include "planner/search/space/strategy_tree.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "planner/model/strategy_fields.h"
#include "planner/model/tied_table.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13, "say whether the papers' planners search the new field");

// Adds the leaves of one path: with and without sharding and recomputation.
void AddVariants(Strategy strategy, bool with_recompute, std::vector<Strategy>& strategies) {
  for (ShardingLevel sharding : {ShardingLevel::kNone, ShardingLevel::kParameters}) {
    if (sharding != ShardingLevel::kNone && strategy.data_parallel_degree == 1) continue;
    strategy.sharding_level = sharding;
    strategy.recompute_level = RecomputeLevel::kNone;
    strategies.push_back(strategy);
    if (!with_recompute) continue;
    strategy.recompute_level = RecomputeLevel::kFull;
    strategies.push_back(strategy);
  }
}

bool InSpace(const SearchSpace& space, const Strategy& strategy) {
  if (space.tensor_parallel_degree &&
      strategy.tensor_parallel_degree != *space.tensor_parallel_degree) {
    return false;
  }
  if (space.only_tensor_innermost && strategy.rank_order != RankOrder::kTensorInnermost) {
    return false;
  }
  const bool sharded = strategy.sharding_level != ShardingLevel::kNone;
  switch (space.sharding) {
    case SearchSpace::Sharding::kAny:
      return true;
    case SearchSpace::Sharding::kNever:
      return !sharded;
    case SearchSpace::Sharding::kAlways:
      return sharded || strategy.data_parallel_degree == 1;
  }
  return false;
}

// Returns whether dimensions and target allow the strategy.
bool InDeclaredSpace(const PlanningProblem& problem, const LayerDefinition& definition,
                     const Strategy& strategy, bool holds_tied_table) {
  const DimensionSet dimensions = problem.dimensions();
  const TargetLimits& target = LimitsOf(problem.rules().target);
  const auto is_power_of_two = [](int degree) { return (degree & (degree - 1)) == 0; };
  if (target.only_powers_of_two && !(is_power_of_two(strategy.tensor_parallel_degree) &&
                                     is_power_of_two(strategy.data_parallel_degree))) {
    return false;
  }
  if (strategy.tensor_parallel_degree > 1 && !dimensions.has(SearchDimension::kTensor)) {
    return false;
  }
  if (strategy.rank_order != RankOrder::kTensorInnermost &&
      !dimensions.has(SearchDimension::kRankOrder)) {
    return false;
  }
  if (strategy.recompute_level != RecomputeLevel::kNone &&
      !dimensions.has(SearchDimension::kFullRecompute)) {
    return false;
  }
  if (!SplitsAsAllowed(target, strategy, HasExperts(problem.model()))) return false;
  const bool has_pipeline = strategy.rank_count() < problem.device_count();
  if (!AllowsCombination(target, strategy, definition.expert_count > 0, has_pipeline,
                         /*with_level=*/true)) {
    return false;
  }
  if (has_pipeline && holds_tied_table &&
      strategy.sharding_level > target.most_tied_sharding_in_pipeline) {
    return false;
  }
  return strategy.sharding_level == ShardingLevel::kNone ||
         (dimensions.has(SearchDimension::kParameterSharding) &&
          (!has_pipeline || strategy.sharding_level <= target.most_sharding_in_pipeline));
}

bool DoesAs(const PlanningProblem& problem, const LayerDefinition& definition, Strategy strategy,
            Strategy wanted) {
  if (!IsTransformer(definition.kind)) {
    if (problem.dimensions().has(SearchDimension::kEndStrategies)) return true;
    wanted.set_recomputation(RecomputeLevel::kNone);
  }
  strategy.sequence_parallel = wanted.sequence_parallel;
  return strategy == wanted;
}

// Returns whether some transformer layer can be split `degree` times: collectives need to have been
// measured for these degrees only.
bool SplitsSomeTransformer(const ModelSpec& model, int degree) {
  return std::any_of(model.layer_definitions().begin(), model.layer_definitions().end(),
                     [degree](const LayerDefinition& definition) {
                       return IsTransformer(definition.kind) &&
                              SplitsOverTensorRanks(definition, degree);
                     });
}

}  // namespace

std::vector<int64_t> Divisors(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t divisor = 1; divisor * divisor <= number; ++divisor) {
    if (number % divisor != 0) continue;
    divisors.push_back(divisor);
    if (divisor != number / divisor) divisors.push_back(number / divisor);
  }
  std::sort(divisors.begin(), divisors.end());
  return divisors;
}

std::vector<Strategy> StageStrategies(int rank_count, bool with_recompute) {
  std::vector<Strategy> strategies;
  for (int64_t divisor : Divisors(rank_count)) {
    Strategy strategy;
    strategy.tensor_parallel_degree = static_cast<int>(divisor);
    strategy.data_parallel_degree = rank_count / strategy.tensor_parallel_degree;
    AddVariants(strategy, with_recompute, strategies);
    if (strategy.tensor_parallel_degree == 1 || strategy.data_parallel_degree == 1) continue;
    strategy.rank_order = RankOrder::kDataInnermost;
    AddVariants(strategy, with_recompute, strategies);
  }
  std::sort(strategies.begin(), strategies.end());
  return strategies;
}

bool StrategyApplies(const LayerDefinition& definition, const Strategy& strategy,
                     int64_t micro_batch_size) {
  if (micro_batch_size % strategy.data_parallel_degree != 0) return false;
  const int tensor_degree = strategy.tensor_parallel_degree;
  if (!IsTransformer(definition.kind)) {
    return strategy.recompute_level == RecomputeLevel::kNone &&
           definition.hidden_size % tensor_degree == 0;
  }
  return SplitsOverTensorRanks(definition, tensor_degree);
}

std::vector<Strategy> AllowedStrategies(const PlanningProblem& problem, const SearchSpace& space,
                                        int definition_index, int rank_count,
                                        int64_t micro_batch_size, bool sequence_parallel) {
  const LayerDefinition& definition = problem.model().layer_definitions()[definition_index];
  const bool holds_tied_table = HoldsTiedTable(problem.model(), definition_index);
  const int max_tensor_degree = problem.max_tensor_parallel_degree();
  std::vector<Strategy> allowed;
  for (Strategy strategy : StageStrategies(rank_count, space.recompute)) {
    const int tensor_degree = strategy.tensor_parallel_degree;
    if (tensor_degree > max_tensor_degree) continue;
    if (tensor_degree > 1 && !SplitsSomeTransformer(problem.model(), tensor_degree)) continue;
    if (!InDeclaredSpace(problem, definition, strategy, holds_tied_table) ||
        !InSpace(space, strategy)) {
      continue;
    }
    if (space.table_strategy && holds_tied_table &&
        !HoldTableAlike(strategy, *space.table_strategy)) {
      continue;
    }
    if (space.transformer_strategy &&
        !DoesAs(problem, definition, strategy, *space.transformer_strategy)) {
      continue;
    }
    if (!StrategyApplies(definition, strategy, micro_batch_size)) continue;
    strategy.sequence_parallel = sequence_parallel && tensor_degree > 1;
    if (space.sequence_parallel && tensor_degree > 1 &&
        strategy.sequence_parallel != *space.sequence_parallel) {
      continue;
    }
    if (space.end_strategy && !IsTransformer(definition.kind) && strategy != *space.end_strategy) {
      continue;
    }
    if (!SharesAsAllowed(LimitsOf(problem.rules().target), definition, strategy)) continue;
    allowed.push_back(strategy);
  }
  std::sort(allowed.begin(), allowed.end());
  return allowed;
}

}  // namespace parplan
