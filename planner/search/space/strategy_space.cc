#include "planner/search/space/strategy_space.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <vector>

#include "planner/model/strategy_fields.h"
#include "planner/model/tied_table.h"
#include "planner/search/space/strategy_tree.h"

namespace parplan {
namespace {

using enum SearchDimension;

bool IsPowerOfTwo(int64_t number) { return (number & (number - 1)) == 0; }

// Returns whether two layers ask for different values of what a plan has once.
template <typename T>
bool Contradict(const std::optional<T>& a, const std::optional<T>& b) {
  return a.has_value() && b.has_value() && *a != *b;
}

// Only transformer layers recompute or have experts, and sequence parallelism follows from how a
// definition was measured.
static_assert(kStrategyFieldCount == 13, "say whether end layers share the new field");

// Returns whether the parts of a strategy agree that end layers share with their neighbours.
bool SameEnds(const Strategy& a, const Strategy& b) {
  return a.tensor_parallel_degree == b.tensor_parallel_degree &&
         a.data_parallel_degree == b.data_parallel_degree &&
         a.context_parallel_degree == b.context_parallel_degree &&
         a.context_kind == b.context_kind &&
         a.context_exchange_degree == b.context_exchange_degree && a.rank_order == b.rank_order &&
         a.sharding_level == b.sharding_level && a.sharding_degree == b.sharding_degree;
}

}  // namespace

StrategySpace::StrategySpace(const PlanningProblem& problem, const CostModel& costs)
    : problem_(problem),
      costs_(costs),
      dimensions_(problem.dimensions()),
      target_(LimitsOf(problem.rules().target)),
      has_data_sheets_(problem.has_hardware() && problem.rules().allow_estimates),
      model_has_experts_(parplan::HasExperts(problem.model())) {
  // Key of everything that bare strategies depend on.
  using Kind = std::tuple<bool, int, int, int, int, int, int, int, bool, bool, int64_t, bool>;
  std::map<Kind, int> first_of_kind;
  for (const LayerDefinition& layer : problem.model().layer_definitions()) {
    const bool is_transformer = IsTransformer(layer.kind);
    if (is_transformer) ++transformer_definition_count_;
    const auto index = static_cast<int>(alike_.size());
    // The sizes below do not say what splits a layer without attention.
    const int own_kind = is_transformer && !HasAttention(layer.kind) ? index : -1;
    const Kind kind = {is_transformer,
                       own_kind,
                       layer.attention_head_count,
                       layer.key_value_head_count,
                       layer.hidden_size,
                       layer.sequence_length,
                       layer.expert_count,
                       layer.expert_feed_forward_size,
                       costs.searched_group().sequence_parallel(index),
                       parplan::HoldsTiedTable(problem.model(), index),
                       target_.equal_feed_forward_shares ? layer.feed_forward_size : 0,
                       target_.whole_latent_attention && layer.latent_attention.has_value()};
    alike_.push_back(first_of_kind.try_emplace(kind, index).first->second);
    holds_tied_table_.push_back(parplan::HoldsTiedTable(problem.model(), index));
  }
  if (dimensions_.has(kModuleRecompute) && has_data_sheets_) {
    module_sets_ = SearchedModuleSets(problem.model().layer_definitions(),
                                      dimensions_.has(kSelectiveRecompute));
  }
}

bool StrategySpace::HasExperts(int definition_index) const {
  return problem_.model().layer_definitions()[definition_index].expert_count > 0;
}

bool StrategySpace::IsTransformerLayer(int definition_index) const {
  return IsTransformer(problem_.model().layer_definitions()[definition_index].kind);
}

bool StrategySpace::SplitsSomeTransformer(int degree) const {
  const std::vector<LayerDefinition>& definitions = problem_.model().layer_definitions();
  return std::any_of(definitions.begin(), definitions.end(), [degree](const auto& layer) {
    return IsTransformer(layer.kind) && SplitsOverTensorRanks(layer, degree);
  });
}

std::vector<int> StrategySpace::PipelineDegrees() const {
  int transformer_layer_count = 0;
  for (const ModelLayerRun& run : problem_.model().layer_runs()) {
    if (IsTransformerLayer(run.definition_index)) transformer_layer_count += run.layer_count;
  }
  std::vector<int> degrees;
  for (const int64_t degree : Divisors(problem_.device_count())) {
    if (degree > problem_.max_pipeline_parallel_degree()) break;
    if (degree > 1 && !dimensions_.has(kPipeline)) break;
    if (degree > 1 && !AllowsPipeline(target_, problem_.model())) break;
    if (target_.only_powers_of_two && !IsPowerOfTwo(degree)) continue;
    if (!dimensions_.has(kUnevenStages) && transformer_layer_count % degree != 0) continue;
    degrees.push_back(static_cast<int>(degree));
  }
  return degrees;
}

std::vector<int64_t> StrategySpace::MicroBatchCounts(int64_t global_batch_size) const {
  const int64_t wanted = problem_.rules().micro_batch_count;
  if (wanted > 0) {
    if (global_batch_size % wanted != 0 || wanted > kMaxForwardPassCount) return {};
    return {wanted};
  }
  std::vector<int64_t> counts = Divisors(global_batch_size);
  while (counts.back() > kMaxForwardPassCount) counts.pop_back();
  return counts;
}

std::vector<Schedule> StrategySpace::Schedules(int pipeline_parallel_degree) const {
  const std::optional<Schedule> wanted = problem_.rules().schedule;
  if (pipeline_parallel_degree == 1) {
    const Schedule schedule = wanted.value_or(kDefaultSchedule);
    const ScheduleTraits& traits = TraitsOf(schedule);
    const bool is_whole = traits.backward_split == BackwardSplit::kWhole;
    if (traits.has_virtual_stages || !is_whole) return {};
    return {schedule};
  }
  std::vector<Schedule> schedules;
  for (const ScheduleTraits& traits : KnownSchedules()) {
    if (wanted.has_value() && traits.schedule != *wanted) continue;
    if (traits.dimension.has_value() && !dimensions_.has(*traits.dimension)) continue;
    if (traits.backward_split != BackwardSplit::kWhole) continue;
    schedules.push_back(traits.schedule);
  }
  return schedules;
}

bool StrategySpace::DegreesApply(const LayerDefinition& layer, int tensor, int context,
                                 int data) const {
  if (target_.only_powers_of_two &&
      !(IsPowerOfTwo(tensor) && IsPowerOfTwo(context) && IsPowerOfTwo(data))) {
    return false;
  }
  if (tensor == 1) return true;
  if (IsTransformer(layer.kind)) return SplitsOverTensorRanks(layer, tensor);
  return layer.hidden_size % tensor == 0 && SplitsSomeTransformer(tensor);
}

bool StrategySpace::KindApplies(const LayerDefinition& layer, int tensor, int context,
                                ContextKind kind) const {
  if (context == 1) return kind == ContextKind::kRing;
  if (!has_data_sheets_ || !SharesTokens(layer)) return false;
  if (kind != ContextKind::kUlysses) {
    return dimensions_.has(kContext) && layer.sequence_length % (2 * context) == 0;
  }
  const int parts = target_.context_in_two_parts ? 2 * context : context;
  if (!dimensions_.has(kUlysses) || layer.sequence_length % parts != 0) return false;
  if (target_.one_inner_axis && tensor > 1) return false;
  return !HasAttention(layer.kind) || SplitsOverTensorRanks(layer, int64_t{tensor} * context);
}

std::vector<int> StrategySpace::ExpertTensorDegrees(const LayerDefinition& layer,
                                                    const Strategy& strategy) const {
  std::vector<int> degrees = {0};
  if (!dimensions_.has(kExpertTensor) || !has_data_sheets_ || !layer.has_experts() ||
      !strategy.sequence_parallel ||
      problem_.rules().runtime.expert_exchange != ExpertExchange::kTokens) {
    return degrees;
  }
  // Sequence parallelism means that the degree is above 1.
  degrees.push_back(1);
  return degrees;
}

std::vector<Strategy> StrategySpace::BareStrategies(int definition_index,
                                                    int pipeline_parallel_degree,
                                                    int64_t micro_batch_size) const {
  const LayerDefinition& layer = problem_.model().layer_definitions()[definition_index];
  const int rank_count = problem_.device_count() / pipeline_parallel_degree;
  const bool with_context =
      has_data_sheets_ && (dimensions_.has(kContext) || dimensions_.has(kUlysses));
  std::vector<Strategy> strategies;
  const std::vector<int64_t> divisors = Divisors(rank_count);
  for (const int64_t tensor_divisor : divisors) {
    const int tensor = static_cast<int>(tensor_divisor);
    if (tensor > problem_.max_tensor_parallel_degree()) break;
    if (tensor > 1 && !dimensions_.has(kTensor)) break;
    if (!DegreesApply(layer, tensor, 1, 1)) continue;
    const int rest = rank_count / tensor;
    for (const int64_t data_divisor : divisors) {
      const int data = static_cast<int>(data_divisor);
      if (data > rest || data > micro_batch_size) break;
      const int context = rest / data;
      if (context > 1 && !with_context) continue;
      if (rest % data != 0 || micro_batch_size % data != 0) continue;
      if (!DegreesApply(layer, tensor, context, data)) continue;
      Strategy strategy;
      strategy.tensor_parallel_degree = tensor;
      strategy.data_parallel_degree = data;
      strategy.context_parallel_degree = context;
      strategy.sequence_parallel =
          tensor > 1 && costs_.searched_group().sequence_parallel(definition_index);
      if (!SplitsAsAllowed(target_, strategy, model_has_experts_) ||
          !SharesAsAllowed(target_, layer, strategy)) {
        continue;
      }
      const bool has_order = tensor > 1 && data * context > 1 && dimensions_.has(kRankOrder);
      const ContextKind plain = context > 1 ? target_.context_kind : ContextKind::kRing;
      const auto add_kinds = [&] {
        // Some targets run strategies only with sharding that the dimensions may not have.
        strategy.context_kind = plain;
        strategy.rank_order = RankOrder::kTensorInnermost;
        if (ShardingLevels(definition_index, strategy, pipeline_parallel_degree).empty()) return;
        for (const ContextKind kind : {plain, ContextKind::kUlysses}) {
          if (!KindApplies(layer, tensor, context, kind)) continue;
          strategy.context_kind = kind;
          strategy.rank_order = RankOrder::kTensorInnermost;
          strategies.push_back(strategy);
          if (!has_order || strategy.expert_tensor_parallel_degree > 0) continue;
          strategy.rank_order = RankOrder::kDataInnermost;
          strategies.push_back(strategy);
        }
      };
      for (const int expert_tensor : ExpertTensorDegrees(layer, strategy)) {
        strategy.expert_tensor_parallel_degree = expert_tensor;
        const int max_expert =
            has_data_sheets_ && layer.expert_count > 0
                ? std::gcd(rank_count / strategy.expert_tensor_degree(), layer.expert_count)
                : 1;
        for (int expert = 1; expert <= max_expert; ++expert) {
          if (max_expert % expert != 0) continue;
          strategy.expert_parallel_degree = expert;
          if (AllowsCombination(target_, strategy, layer.expert_count > 0,
                                pipeline_parallel_degree > 1, /*with_level=*/false)) {
            add_kinds();
          }
        }
      }
    }
  }
  return strategies;
}

absl::InlinedVector<ShardingLevel, 4> StrategySpace::ShardingLevels(
    int definition_index, const Strategy& bare, int pipeline_parallel_degree) const {
  absl::InlinedVector<ShardingLevel, 4> levels = {ShardingLevel::kNone};
  if (bare.data_parallel_degree * bare.context_parallel_degree == 1) return levels;
  if (target_.sharding_needs_data_parallel && bare.data_parallel_degree == 1) return levels;
  ShardingLevel highest = ShardingLevel::kParameters;
  if (pipeline_parallel_degree > 1) {
    highest = target_.most_sharding_in_pipeline;
    if (HoldsTiedTable(definition_index)) {
      highest = std::min(highest, target_.most_tied_sharding_in_pipeline);
    }
  }
  const auto add = [&](SearchDimension dimension, ShardingLevel level) {
    if (!dimensions_.has(dimension) || level > highest) return;
    Strategy sharded = bare;
    sharded.sharding_level = level;
    if (SplitsAsAllowed(target_, sharded, model_has_experts_)) levels.push_back(level);
  };
  add(kOptimizerSharding, ShardingLevel::kOptimizer);
  add(kGradientSharding, ShardingLevel::kGradients);
  add(kParameterSharding, ShardingLevel::kParameters);
  const bool has_experts = problem_.model().layer_definitions()[definition_index].expert_count > 0;
  const auto is_refused = [&](ShardingLevel level) {
    Strategy strategy = bare;
    strategy.sharding_level = level;
    return !AllowsCombination(target_, strategy, has_experts, pipeline_parallel_degree > 1,
                              /*with_level=*/true);
  };
  levels.erase(std::remove_if(levels.begin(), levels.end(), is_refused), levels.end());
  return levels;
}

absl::InlinedVector<int, 4> StrategySpace::ShardingDegrees(const Strategy& bare,
                                                           ShardingLevel level) const {
  absl::InlinedVector<int, 4> degrees = {0};
  if (level == ShardingLevel::kNone || !has_data_sheets_ || !dimensions_.has(kHybridSharding)) {
    return degrees;
  }
  Strategy sharded = bare;
  sharded.sharding_level = level;
  const int replicas = bare.replica_count();
  for (int degree = 2; degree <= replicas / 2; ++degree) {
    if (replicas % degree != 0) continue;
    if (target_.only_powers_of_two && !IsPowerOfTwo(degree)) continue;
    sharded.sharding_degree = degree;
    if (sharded.has_experts_in_groups() && AllowsHybridSharding(target_, sharded)) {
      degrees.push_back(degree);
    }
  }
  return degrees;
}

absl::InlinedVector<Recomputation, 4> StrategySpace::Recomputations(
    const LayerFootprint& footprint) const {
  absl::InlinedVector<Recomputation, 4> levels = {RecomputeLevel::kNone};
  if (!IsTransformer(footprint.kind)) return levels;
  if (dimensions_.has(kFullRecompute)) levels.push_back(RecomputeLevel::kFull);
  if (dimensions_.has(kSelectiveRecompute) &&
      footprint.activations.Kept(RecomputeLevel::kSelective) <
          footprint.activations.Kept(RecomputeLevel::kNone)) {
    levels.push_back(RecomputeLevel::kSelective);
  }
  for (const RecomputeModules modules : module_sets_) levels.push_back(Recomputation(modules));
  return levels;
}

std::vector<Strategy> StrategySpace::Strategies(int definition_index, int pipeline_parallel_degree,
                                                int64_t micro_batch_size) const {
  std::vector<Strategy> strategies;
  for (Strategy strategy :
       BareStrategies(definition_index, pipeline_parallel_degree, micro_batch_size)) {
    const auto recomputations = Recomputations(costs_.searched_group()
                                                   .layer_source(definition_index)
                                                   .Footprint(strategy, pipeline_parallel_degree));
    for (const ShardingLevel sharding :
         ShardingLevels(definition_index, strategy, pipeline_parallel_degree)) {
      for (const int degree : ShardingDegrees(strategy, sharding)) {
        strategy.set_sharding({sharding, degree});
        for (const Recomputation& recomputation : recomputations) {
          strategy.set_recomputation(recomputation);
          strategies.push_back(strategy);
        }
      }
    }
  }
  std::sort(strategies.begin(), strategies.end());
  return strategies;
}

bool StrategySpace::GoTogether(int definition_a, const Strategy& a, int definition_b,
                               const Strategy& b) const {
  if (HoldsTiedTable(definition_a) && HoldsTiedTable(definition_b) && !HoldTableAlike(a, b)) {
    return false;
  }
  if (target_.one_expert_degree &&
      (a.expert_parallel_degree != b.expert_parallel_degree ||
       a.expert_tensor_parallel_degree != b.expert_tensor_parallel_degree) &&
      HasExperts(definition_a) && HasExperts(definition_b)) {
    return false;
  }
  const bool transformer_a = IsTransformerLayer(definition_a);
  const bool transformer_b = IsTransformerLayer(definition_b);
  if (target_.ends_alike && !transformer_a && !transformer_b && a != b) return false;
  if (Contradict(CommonLevel(a), CommonLevel(b)) ||
      Contradict(CommonSequenceParallel(a), CommonSequenceParallel(b))) {
    return false;
  }
  if (dimensions_.has(kPerLayer)) return true;
  if (transformer_a && transformer_b) {
    if (definition_a == definition_b) return a == b;
    // Sequence parallelism follows from how a definition was measured, and the degrees of experts
    // from their number and width.
    Strategy like_b = a;
    like_b.sequence_parallel = b.sequence_parallel;
    like_b.expert_parallel_degree = b.expert_parallel_degree;
    like_b.expert_tensor_parallel_degree = b.expert_tensor_parallel_degree;
    return like_b == b;
  }
  return dimensions_.has(kEndStrategies) || SameEnds(a, b);
}

std::optional<ShardingLevel> StrategySpace::CommonLevel(const Strategy& strategy) const {
  if (!target_.one_level_below_parameters || strategy.data_parallel_degree == 1 ||
      strategy.sharding_level == ShardingLevel::kParameters) {
    return std::nullopt;
  }
  return strategy.sharding_level;
}

std::optional<bool> StrategySpace::CommonSequenceParallel(const Strategy& strategy) const {
  if (!target_.one_sequence_parallel || strategy.tensor_parallel_degree == 1) return std::nullopt;
  return strategy.sequence_parallel;
}

bool StrategySpace::MayReplace(int definition_index, const Strategy& strategy,
                               const Strategy& other) const {
  const bool binds_end = target_.ends_alike && !IsTransformerLayer(definition_index);
  if ((HoldsTiedTable(definition_index) || binds_end) && strategy.sharding() != other.sharding()) {
    return false;
  }
  const std::optional<ShardingLevel> level = CommonLevel(other);
  if (level.has_value() && CommonLevel(strategy) != level) return false;
  if (!dimensions_.has(kEndStrategies) && !SameEnds(strategy, other)) return false;
  return MayReplaceAny(definition_index);
}

bool StrategySpace::MayReplaceAny(int definition_index) const {
  return dimensions_.has(kPerLayer) || !IsTransformerLayer(definition_index) ||
         transformer_definition_count_ == 1;
}

}  // namespace parplan
