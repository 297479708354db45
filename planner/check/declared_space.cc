// The part of the check that compares a plan with the declared space.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/check/result_check.h"
#include "planner/model/strategy_fields.h"
#include "planner/model/tied_table.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13, "say which spaces have the new field");

using enum SearchDimension;

absl::Status Outside(const std::string& what) {
  const std::string fact = absl::StrCat(what, ", which space and target do not allow");
  return MakeError(
      absl::StatusCode::kInternal, Reason::kCheckFailed,
      absl::StrCat("the plan is outside its space: ", fact, "; report this with the problem"),
      {{"fact", fact}});
}

bool IsPowerOfTwo(int64_t number) { return (number & (number - 1)) == 0; }

// Returns whether two strategies are alike in everything that the layers let vary.
bool Alike(Strategy a, Strategy b) {
  a.sequence_parallel = b.sequence_parallel = false;
  a.expert_parallel_degree = b.expert_parallel_degree = 1;
  a.expert_tensor_parallel_degree = b.expert_tensor_parallel_degree = 0;
  return a == b;
}

bool AlikeButForRecompute(Strategy end, Strategy neighbour) {
  end.recompute_level = neighbour.recompute_level;
  end.recompute_modules = neighbour.recompute_modules;
  return Alike(end, neighbour);
}

// Returns whether a set is one of the two of docs/targets.md: of the modules that some layer has,
// either the cheapest or, with `mlp` and `moe`, all that are not within another.
bool HasCheapestModules(const ModelSpec& model, RecomputeModules set) {
  using enum RecomputeModule;
  const bool all = set.has(kFeedForward) || set.has(kExperts);
  for (const RecomputeModule module :
       {kNorms, kExpertActivation, kLatentUpProjection, kSharedExperts, kFeedForward, kExperts}) {
    bool is_wanted = false;
    for (const LayerDefinition& layer : model.layer_definitions()) {
      is_wanted = is_wanted || HasRecomputeModule(layer, module);
    }
    if (module == kSharedExperts) is_wanted = false;
    if (module == kExpertActivation) is_wanted = is_wanted && !all;
    if (module == kFeedForward || module == kExperts) is_wanted = is_wanted && all;
    if (set.has(module) != is_wanted) return false;
  }
  return true;
}

absl::Status CheckLevels(const PlanningProblem& problem, const std::string& where,
                         const Strategy& strategy, bool has_pipeline, bool holds_tied_table) {
  const DimensionSet dimensions = problem.dimensions();
  const TargetLimits& target = LimitsOf(problem.rules().target);
  const auto needs = [&](bool is_used, SearchDimension dimension) {
    if (!is_used || dimensions.has(dimension)) return absl::OkStatus();
    return Outside(absl::StrCat(where, " uses `", SearchDimensionName(dimension), "`"));
  };
  const ShardingLevel level = strategy.sharding_level;
  PARPLAN_RETURN_IF_ERROR(needs(level == ShardingLevel::kOptimizer, kOptimizerSharding));
  PARPLAN_RETURN_IF_ERROR(needs(level == ShardingLevel::kGradients, kGradientSharding));
  PARPLAN_RETURN_IF_ERROR(needs(level == ShardingLevel::kParameters, kParameterSharding));
  PARPLAN_RETURN_IF_ERROR(needs(strategy.sharding_degree > 0, kHybridSharding));
  if (strategy.sharding_degree > 0 && level > target.most_hybrid_sharding) {
    return Outside(
        absl::StrCat(where, " shards more over groups of ranks than ", target.name, " can"));
  }
  if (strategy.sharding_degree > 0 && target.shares_states_beside_context &&
      strategy.sharding_degree % strategy.context_parallel_degree != 0) {
    return Outside(absl::StrCat(where, " parts ranks of one sequence by its sharding"));
  }
  const RecomputeLevel recompute = strategy.recompute_level;
  PARPLAN_RETURN_IF_ERROR(needs(recompute == RecomputeLevel::kSelective, kSelectiveRecompute));
  PARPLAN_RETURN_IF_ERROR(needs(recompute == RecomputeLevel::kFull, kFullRecompute));
  PARPLAN_RETURN_IF_ERROR(needs(recompute == RecomputeLevel::kModules, kModuleRecompute));
  PARPLAN_RETURN_IF_ERROR(
      needs(strategy.recompute_modules.has(RecomputeModule::kCoreAttention), kSelectiveRecompute));
  if (recompute == RecomputeLevel::kModules &&
      !HasCheapestModules(problem.model(), strategy.recompute_modules)) {
    return Outside(absl::StrCat(where, " recomputes other modules than the cheapest or all"));
  }
  if (has_pipeline && level > target.most_sharding_in_pipeline) {
    return Outside(absl::StrCat(where, " shards more than a pipeline of ", target.name, " can"));
  }
  const bool splits_tokens = strategy.tensor_parallel_degree == 1 || strategy.sequence_parallel;
  if (target.sharding_needs_sequence_parallel && level >= ShardingLevel::kGradients &&
      !splits_tokens) {
    return Outside(absl::StrCat(where, " shards gradients without sequence parallelism"));
  }
  if (has_pipeline && holds_tied_table && level > target.most_tied_sharding_in_pipeline) {
    return Outside(
        absl::StrCat(where, " shards a tied table more than a pipeline of ", target.name, " can"));
  }
  return absl::OkStatus();
}

absl::Status CheckDegrees(const PlanningProblem& problem, const std::string& where,
                          const Strategy& strategy) {
  const DimensionSet dimensions = problem.dimensions();
  const TargetLimits& target = LimitsOf(problem.rules().target);
  const bool ulysses = strategy.context_kind == ContextKind::kUlysses;
  const auto needs = [&](bool is_used, SearchDimension dimension) {
    if (!is_used || dimensions.has(dimension)) return absl::OkStatus();
    return Outside(absl::StrCat(where, " uses `", SearchDimensionName(dimension), "`"));
  };
  PARPLAN_RETURN_IF_ERROR(needs(strategy.tensor_parallel_degree > 1, kTensor));
  PARPLAN_RETURN_IF_ERROR(needs(strategy.expert_tensor_parallel_degree > 0, kExpertTensor));
  if (strategy.expert_tensor_parallel_degree > 1) {
    return Outside(absl::StrCat(where, " splits experts over other ranks than the rest of it"));
  }
  const bool gathers = strategy.context_kind == ContextKind::kAllGather;
  const bool is_plain = gathers == (target.context_kind == ContextKind::kAllGather);
  if (strategy.context_exchange_degree > 1 ||
      (strategy.context_parallel_degree > 1 && !ulysses && !is_plain)) {
    return Outside(absl::StrCat(where, " shares tokens in another way than its target"));
  }
  PARPLAN_RETURN_IF_ERROR(needs(strategy.rank_order == RankOrder::kDataInnermost, kRankOrder));
  PARPLAN_RETURN_IF_ERROR(
      needs(strategy.context_parallel_degree > 1, ulysses ? kUlysses : kContext));
  for (const LayerDefinition& layer : problem.model().layer_definitions()) {
    if (target.context_in_two_parts && strategy.context_parallel_degree > 1 &&
        layer.sequence_length % (2 * strategy.context_parallel_degree) != 0) {
      return Outside(absl::StrCat(where, " splits its sequence in unequal parts"));
    }
    if (target.experts_need_sequence_parallel && layer.expert_count > 0 &&
        strategy.tensor_parallel_degree > 1 && !strategy.sequence_parallel) {
      return Outside(absl::StrCat(where, " has tensor parallelism without sequence parallelism"));
    }
  }
  if (target.one_inner_axis && ulysses && strategy.tensor_parallel_degree > 1) {
    return Outside(absl::StrCat(where, " has tensor parallelism and Ulysses"));
  }
  if (target.only_powers_of_two && !(IsPowerOfTwo(strategy.tensor_parallel_degree) &&
                                     IsPowerOfTwo(strategy.context_parallel_degree) &&
                                     IsPowerOfTwo(strategy.data_parallel_degree))) {
    return Outside(absl::StrCat(where, " has a degree that is no power of two"));
  }
  return absl::OkStatus();
}

// Checks what targets restrict in combinations of degrees.
absl::Status CheckSplits(const TargetLimits& target, const std::string& where,
                         const Strategy& strategy, bool has_experts, bool has_pipeline) {
  const bool split = strategy.tensor_parallel_degree * strategy.context_parallel_degree > 1;
  const bool spreads = strategy.expert_parallel_degree > 1;
  if (target.only_data_parallel_in_pipeline && has_pipeline && (split || spreads)) {
    return Outside(absl::StrCat(where, " is split beside a pipeline of ", target.name));
  }
  if (target.whole_expert_layers && has_experts && split) {
    return Outside(absl::StrCat(where, " has experts and is split"));
  }
  if (target.whole_experts && spreads) return Outside(absl::StrCat(where, " spreads experts"));
  if (target.sharding_needs_data_parallel && strategy.data_parallel_degree == 1 &&
      strategy.sharding_level != ShardingLevel::kNone) {
    return Outside(absl::StrCat(where, " shards without data parallelism"));
  }
  const bool shards = strategy.sharding_level == ShardingLevel::kGradients ||
                      strategy.sharding_level == ShardingLevel::kParameters;
  const bool has_replicas =
      strategy.data_parallel_degree > 1 || strategy.context_parallel_degree > 1;
  if (target.spread_experts_are_sharded && spreads &&
      (strategy.tensor_parallel_degree > 1 || strategy.sharding_level == ShardingLevel::kNone)) {
    return Outside(absl::StrCat(where, " spreads experts that are split or not sharded"));
  }
  if (target.shards_beside_context && strategy.context_parallel_degree > 1 &&
      strategy.sharding_level == ShardingLevel::kNone) {
    return Outside(absl::StrCat(where, " shards nothing beside context parallelism"));
  }
  if (target.shards_parameters_of_one_stage && !has_pipeline && has_replicas &&
      strategy.sharding_level != ShardingLevel::kParameters) {
    return Outside(absl::StrCat(where, " keeps whole parameters in one stage"));
  }
  if (target.shards_split_layers && split && has_replicas && !shards) {
    return Outside(absl::StrCat(where, " is split and keeps whole gradients on its replicas"));
  }
  if (target.shards_in_pipeline && has_pipeline && has_replicas &&
      strategy.sharding_level == ShardingLevel::kNone) {
    return Outside(absl::StrCat(where, " shards nothing beside a pipeline of ", target.name));
  }
  return absl::OkStatus();
}

// Checks what targets ask of the parts that tensor-parallel ranks have of a layer.
absl::Status CheckShares(const TargetLimits& target, const std::string& where,
                         const LayerDefinition& layer, const Strategy& strategy) {
  const int tensor = strategy.tensor_parallel_degree;
  if (target.whole_latent_attention && tensor > 1 && layer.latent_attention.has_value()) {
    return Outside(absl::StrCat(where, " splits latent attention"));
  }
  if (target.equal_feed_forward_shares && IsTransformer(layer.kind) &&
      layer.feed_forward_size % tensor != 0) {
    return Outside(absl::StrCat(where, " splits its feed-forward width in unequal parts"));
  }
  if (target.equal_token_shares && strategy.sequence_parallel) {
    const int context = strategy.context_parallel_degree;
    const bool in_two_parts = target.context_in_two_parts && context > 1;
    const int64_t tokens = layer.sequence_length / (in_two_parts ? 2 * context : context);
    if (tokens % tensor != 0) {
      return Outside(absl::StrCat(where, " splits its tokens in unequal parts"));
    }
  }
  return absl::OkStatus();
}

// Returns the strategies of a plan with block recomputation as they would be without it: if the
// space has such plans, and each stage recomputes the first n layers that may be, or all if it has
// fewer, for one n. Otherwise, and for groups of more micro-batches than stages, beside which no
// search looks for them, returns `strategy_of_layer`.
std::vector<Strategy> WithoutBlocks(const PlanningProblem& problem, const Plan& plan,
                                    const std::vector<Strategy>& strategy_of_layer) {
  const DimensionSet dimensions = problem.dimensions();
  if (plan.micro_batch_group_size != 0 || !dimensions.has(kBlockRecompute) ||
      !dimensions.has(kFullRecompute) || dimensions.has(kPerLayer) ||
      dimensions.has(kEndStrategies)) {
    return strategy_of_layer;
  }
  const auto is_full = [&](int layer) {
    return strategy_of_layer[layer].recompute_level == RecomputeLevel::kFull;
  };
  const auto counts = [&](int layer) {
    const LayerDefinition& definition = problem.model().layer(layer);
    return IsTransformer(definition.kind) && definition.prediction_depth == 0;
  };
  int most = 0;
  for (const StagePlan& stage : plan.stages) {
    const int first = stage.first_layer_index();
    int number = 0;
    for (int layer = first; layer < first + stage.layer_count(); ++layer) {
      if (!counts(layer)) continue;
      ++number;
      if (is_full(layer)) most = std::max(most, number);
    }
  }
  std::vector<Strategy> without = strategy_of_layer;
  for (const StagePlan& stage : plan.stages) {
    const int first = stage.first_layer_index();
    int number = 0;
    for (int layer = first; layer < first + stage.layer_count(); ++layer) {
      if (is_full(layer) != (counts(layer) && ++number <= most)) return strategy_of_layer;
      if (is_full(layer)) without[layer].recompute_level = RecomputeLevel::kNone;
    }
  }
  return without;
}

// Checks layers that must have the same strategy.
absl::Status CheckTogether(const PlanningProblem& problem,
                           const std::vector<Strategy>& strategy_of_layer) {
  const ModelSpec& model = problem.model();
  const DimensionSet dimensions = problem.dimensions();
  const std::vector<int>& definitions = model.definition_of_layer();
  for (int layer = 0; layer < model.layer_count() && !dimensions.has(kPerLayer); ++layer) {
    for (int other = 0; other < layer; ++other) {
      if (!IsTransformer(model.layer(layer).kind) || !IsTransformer(model.layer(other).kind)) {
        continue;
      }
      const Strategy& a = strategy_of_layer[layer];
      const Strategy& b = strategy_of_layer[other];
      const bool one_degree = LimitsOf(problem.rules().target).one_expert_degree &&
                              model.layer(layer).expert_count > 0 &&
                              model.layer(other).expert_count > 0;
      const bool is_alike =
          definitions[layer] == definitions[other]
              ? a == b
              : Alike(a, b) &&
                    (!one_degree ||
                     (a.expert_parallel_degree == b.expert_parallel_degree &&
                      a.expert_tensor_parallel_degree == b.expert_tensor_parallel_degree));
      if (!is_alike) {
        return Outside(
            absl::StrCat("layer ", layer, " differs from layer ", other, " (`per-layer`)"));
      }
    }
  }
  if (dimensions.has(kEndStrategies)) return absl::OkStatus();
  for (int layer = 1; layer < model.layer_count(); ++layer) {
    const bool has_end =
        !IsTransformer(model.layer(layer - 1).kind) || !IsTransformer(model.layer(layer).kind);
    if (has_end && !AlikeButForRecompute(strategy_of_layer[layer - 1], strategy_of_layer[layer])) {
      return Outside(absl::StrCat("layer ", layer,
                                  " differs from the one before it "
                                  "(`end-strategies`)"));
    }
  }
  return absl::OkStatus();
}

// Checks what a target has once for all layers of a plan.
absl::Status CheckCommonChoices(const TargetLimits& target, const ModelSpec& model,
                                const std::vector<Strategy>& strategy_of_layer) {
  // The first layer that decides the level, sequence parallelism and the strategy of ends.
  int first_of_level = -1;
  int first_of_split = -1;
  int first_end = -1;
  for (int layer = 0; layer < model.layer_count(); ++layer) {
    const Strategy& strategy = strategy_of_layer[layer];
    if (strategy.data_parallel_degree > 1 &&
        strategy.sharding_level != ShardingLevel::kParameters) {
      if (first_of_level < 0) first_of_level = layer;
      if (target.one_level_below_parameters &&
          strategy_of_layer[first_of_level].sharding_level != strategy.sharding_level) {
        return Outside(absl::StrCat("layer ", layer, " shards gradients and layer ", first_of_level,
                                    " does not, or the reverse"));
      }
    }
    if (strategy.tensor_parallel_degree > 1) {
      if (first_of_split < 0) first_of_split = layer;
      if (target.one_sequence_parallel &&
          strategy_of_layer[first_of_split].sequence_parallel != strategy.sequence_parallel) {
        return Outside(absl::StrCat("layer ", layer, " differs from layer ", first_of_split,
                                    " in sequence parallelism"));
      }
    }
    if (!IsTransformer(model.layer(layer).kind)) {
      if (first_end < 0) first_end = layer;
      if (target.ends_alike && strategy_of_layer[first_end] != strategy) {
        return Outside(absl::StrCat("layer ", layer, " differs from layer ", first_end,
                                    ", and both are at the ends"));
      }
    }
  }
  return absl::OkStatus();
}

// Checks that each stage has a transformer layer if the target asks for it.
absl::Status CheckStagesHaveTransformers(const TargetLimits& target, const ModelSpec& model,
                                         const Plan& plan) {
  for (size_t index = 0; target.transformer_in_each_stage && index < plan.stages.size(); ++index) {
    const int first = plan.stages[index].first_layer_index();
    bool has_transformer = false;
    for (int layer = first; layer < first + plan.stages[index].layer_count(); ++layer) {
      has_transformer = has_transformer || IsTransformer(model.layer(layer).kind);
    }
    if (!has_transformer) {
      return Outside(absl::StrCat("stage ", index, " has no transformer layer"));
    }
  }
  return absl::OkStatus();
}

// Checks that stages are even if `uneven-stages` is missing or devices have several virtual stages.
absl::Status CheckEvenStages(const PlanningProblem& problem, const Plan& plan) {
  const ModelSpec& model = problem.model();
  int transformer_count = 0;
  for (int layer = 0; layer < model.layer_count(); ++layer) {
    if (IsTransformer(model.layer(layer).kind)) ++transformer_count;
  }
  const auto stage_count = static_cast<int>(plan.stages.size());
  const bool is_even = !problem.dimensions().has(kUnevenStages);
  for (int index = 0; is_even && index < stage_count; ++index) {
    const StagePlan& stage = plan.stages[index];
    int count = 0;
    const int first = stage.first_layer_index();
    for (int layer = first; layer < first + stage.layer_count(); ++layer) {
      if (IsTransformer(model.layer(layer).kind)) ++count;
    }
    if (count * stage_count != transformer_count) {
      return Outside(absl::StrCat("stage ", index, " has ", count, " of ", transformer_count,
                                  " transformer layers"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckDeclaredSpace(const PlanningProblem& problem, const Plan& plan) {
  for (size_t index = 0; index < plan.stages.size(); ++index) {
    // No search offers one, and the rest of the check reads the first layer of each stage.
    if (plan.stages[index].is_empty()) {
      return Outside(absl::StrCat("stage ", index, " has no layers"));
    }
  }
  const DimensionSet dimensions = problem.dimensions();
  const int depth = plan.pipeline_parallel_degree();
  const bool has_pipeline = depth > 1;
  if (has_pipeline && !dimensions.has(kPipeline)) return Outside("it has several stages");
  // With one stage per device, an interleaved plan is one of 1F1B.
  const ScheduleTraits& traits = TraitsOf(plan.schedule);
  const bool differs = traits.has_virtual_stages ? plan.virtual_stage_count > 1 : has_pipeline;
  if (differs && traits.dimension.has_value() && !dimensions.has(*traits.dimension)) {
    return Outside(absl::StrCat("its schedule is ", traits.title));
  }
  if (LimitsOf(problem.rules().target).only_powers_of_two && !IsPowerOfTwo(depth)) {
    return Outside(absl::StrCat("it has ", depth, " stages"));
  }
  const TargetLimits& target = LimitsOf(problem.rules().target);
  if (has_pipeline && target.one_stage_with_tied_table && HasTiedTable(problem.model())) {
    return Outside("it has several stages beside a tied table");
  }
  if (plan.virtual_stage_count > target.most_virtual_stages) {
    return Outside(absl::StrCat("it has ", plan.virtual_stage_count, " virtual stages a device"));
  }
  if (plan.micro_batch_group_size != 0 && !dimensions.has(kGroupSize)) {
    return Outside(
        absl::StrCat("it has groups of ", plan.micro_batch_group_size, " micro-batches"));
  }
  PARPLAN_RETURN_IF_ERROR(CheckEvenStages(problem, plan));
  std::vector<Strategy> strategy_of_layer;
  for (const StagePlan& stage : plan.stages) {
    for (const StageLayerRun& run : stage.layer_runs) {
      const std::string where = absl::StrCat("layer ", run.first_layer_index);
      PARPLAN_RETURN_IF_ERROR(CheckDegrees(problem, where, run.strategy));
      const bool has_experts = problem.model().layer(run.first_layer_index).expert_count > 0;
      PARPLAN_RETURN_IF_ERROR(CheckSplits(target, where, run.strategy, has_experts, has_pipeline));
      PARPLAN_RETURN_IF_ERROR(
          CheckShares(target, where, problem.model().layer(run.first_layer_index), run.strategy));
      const bool holds_tied_table = HoldsTiedTable(
          problem.model(), problem.model().definition_of_layer()[run.first_layer_index]);
      PARPLAN_RETURN_IF_ERROR(
          CheckLevels(problem, where, run.strategy, has_pipeline, holds_tied_table));
      strategy_of_layer.insert(strategy_of_layer.end(), run.layer_count, run.strategy);
    }
  }
  PARPLAN_RETURN_IF_ERROR(CheckStagesHaveTransformers(target, problem.model(), plan));
  PARPLAN_RETURN_IF_ERROR(CheckCommonChoices(target, problem.model(), strategy_of_layer));
  return CheckTogether(problem, WithoutBlocks(problem, plan, strategy_of_layer));
}

}  // namespace parplan
