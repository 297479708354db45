#include "tests/support/brute_force_menus.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "planner/model/strategy_fields.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13, "list the values of the new field");

using enum SearchDimension;

bool SplitsHeads(const LayerDefinition& layer, int degree) {
  if (layer.state_space.has_value()) {
    const StateSpace& space = *layer.state_space;
    return space.head_count > 0 ? space.head_count % degree == 0 && space.group_count % degree == 0
                                : space.inner_size % degree == 0;
  }
  if (layer.kind == LayerKind::kFeedForward) {
    const int width = std::max(layer.feed_forward_size, layer.expert_feed_forward_size);
    return width % degree == 0;
  }
  return layer.attention_head_count % degree == 0 && layer.key_value_head_count % degree == 0;
}

bool SplitsSomeHeads(const PlanningProblem& problem, int degree) {
  for (const LayerDefinition& layer : problem.model().layer_definitions()) {
    if (IsTransformer(layer.kind) && SplitsHeads(layer, degree)) return true;
  }
  return false;
}

// Degrees, order and kind; the levels apart.
bool SpreadApplies(const PlanningProblem& problem, const LayerDefinition& layer,
                   const Strategy& strategy, const PlanShape& shape) {
  const DimensionSet dimensions = problem.dimensions();
  const TargetLimits& limits = LimitsOf(problem.rules().target);
  const int tensor = strategy.tensor_parallel_degree;
  const int data = strategy.data_parallel_degree;
  const int context = strategy.context_parallel_degree;
  // Rings, or what stands for them: torchtitan gathers keys and values.
  const bool is_ring = strategy.context_kind != ContextKind::kUlysses;
  const bool gathers = problem.rules().target == Target::kTorchtitan && context > 1;
  if (is_ring && (strategy.context_kind == ContextKind::kAllGather) != gathers) return false;
  if (shape.micro_batch_size() % data != 0) return false;
  if (tensor > 1) {
    if (!dimensions.has(kTensor) || tensor > problem.max_tensor_parallel_degree()) return false;
    if (IsTransformer(layer.kind) && !SplitsHeads(layer, tensor)) return false;
    if (!IsTransformer(layer.kind) &&
        (layer.hidden_size % tensor != 0 || !SplitsSomeHeads(problem, tensor))) {
      return false;
    }
  }
  bool has_experts = false;
  for (const LayerDefinition& each : problem.model().layer_definitions()) {
    has_experts = has_experts || each.expert_count > 0;
  }
  const bool is_megatron = problem.rules().target == Target::kMegatron;
  if (is_megatron && has_experts && tensor > 1 && !strategy.sequence_parallel) return false;
  if (context == 1 && !is_ring) return false;
  if (context > 1) {
    if (!problem.has_hardware() || !problem.rules().allow_estimates) return false;
    if (layer.state_space.has_value()) return false;
    if (!dimensions.has(is_ring ? kContext : kUlysses)) return false;
    const bool in_two_parts = is_ring || is_megatron;
    if (layer.sequence_length % (in_two_parts ? 2 * context : context) != 0) return false;
    if (!is_ring && IsTransformer(layer.kind) && !SplitsHeads(layer, tensor * context)) {
      return false;
    }
    if (limits.one_inner_axis && !is_ring && tensor > 1) return false;
  }
  if (strategy.rank_order == RankOrder::kDataInnermost &&
      (!dimensions.has(kRankOrder) || tensor == 1 || data * context == 1)) {
    return false;
  }
  return !limits.only_powers_of_two ||
         (IsPowerOfTwo(tensor) && IsPowerOfTwo(context) && IsPowerOfTwo(data));
}

// Whether the layer has a part of the table that the head shares with the embedding.
bool SharesTable(const PlanningProblem& problem, const LayerDefinition& layer) {
  const ModelSpec& model = problem.model();
  const LayerDefinition& last = model.layer(model.layer_count() - 1);
  if (!last.tied_embedding) return false;
  const bool reads_tokens = layer.kind == LayerKind::kEmbedding;
  return layer.tied_embedding || (reads_tokens && layer.vocabulary_size == last.vocabulary_size);
}

// Whether ranks of the same number hold the same of a table under both.
bool HoldSamePart(const Strategy& a, const Strategy& b) {
  return a.sharding_level == b.sharding_level && a.sharding_degree == b.sharding_degree &&
         a.tensor_stride() == b.tensor_stride() &&
         a.tensor_parallel_degree == b.tensor_parallel_degree &&
         a.context_parallel_degree == b.context_parallel_degree &&
         a.data_parallel_degree == b.data_parallel_degree && a.rank_order == b.rank_order;
}

bool LevelApplies(const PlanningProblem& problem, const LayerDefinition& layer,
                  const Strategy& strategy, const PlanShape& shape) {
  const DimensionSet dimensions = problem.dimensions();
  const ShardingLevel level = strategy.sharding_level;
  if (level == ShardingLevel::kNone) return true;
  if (strategy.data_parallel_degree * strategy.context_parallel_degree == 1) return false;
  if (problem.rules().target == Target::kGalvatron && strategy.data_parallel_degree == 1) {
    return false;
  }
  if (shape.pipeline_parallel_degree > 1 &&
      level > LimitsOf(problem.rules().target).most_sharding_in_pipeline) {
    return false;
  }
  if (problem.rules().target == Target::kMegatron && level >= ShardingLevel::kGradients &&
      strategy.tensor_parallel_degree > 1 && !strategy.sequence_parallel) {
    return false;
  }
  // Whole gradients of a table on two stages are added up.
  if (shape.pipeline_parallel_degree > 1 && SharesTable(problem, layer) &&
      (problem.rules().target == Target::kParplan || problem.rules().target == Target::kFsdp2)) {
    return false;
  }
  return dimensions.has(level == ShardingLevel::kOptimizer   ? kOptimizerSharding
                        : level == ShardingLevel::kGradients ? kGradientSharding
                                                             : kParameterSharding);
}

// Whether groups of so many ranks may hold all states each.
bool GroupsApply(const PlanningProblem& problem, const Strategy& strategy) {
  const int group = strategy.sharding_degree;
  if (group == 0) return true;
  const Target target = problem.rules().target;
  const int tensor = strategy.tensor_parallel_degree;
  const int own_tensor = strategy.expert_tensor_parallel_degree;
  if (!problem.dimensions().has(kHybridSharding) ||
      strategy.sharding_level == ShardingLevel::kNone) {
    return false;
  }
  if (!problem.has_hardware() || !problem.rules().allow_estimates) return false;
  const int same = strategy.data_parallel_degree * strategy.context_parallel_degree;
  if (group == 1 || group == same || same % group != 0) return false;
  // Ranks that have all experts among them stay together.
  if (group * tensor % (strategy.expert_parallel_degree * (own_tensor > 0 ? own_tensor : tensor)) !=
      0) {
    return false;
  }
  // Megatron's instances are of the distributed optimizer; torchtitan's shards are those of all
  // ranks of a sequence.
  if (target == Target::kMegatron) return strategy.sharding_level == ShardingLevel::kOptimizer;
  return target != Target::kTorchtitan || group % strategy.context_parallel_degree == 0;
}

bool ExpertsApply(const LayerDefinition& layer, const Strategy& strategy,
                  const PlanningProblem& problem) {
  const int expert = strategy.expert_parallel_degree;
  const int own_tensor = strategy.expert_tensor_parallel_degree;
  const int tensor = strategy.tensor_parallel_degree;
  if (own_tensor > 0) {
    if (!problem.dimensions().has(kExpertTensor) || !problem.has_hardware()) return false;
    if (!problem.rules().allow_estimates || layer.expert_count == 0) return false;
    if (own_tensor != 1 || tensor == 1 || !strategy.sequence_parallel) return false;
    if (strategy.rank_order != RankOrder::kTensorInnermost) return false;
    if (problem.rules().runtime.expert_exchange != ExpertExchange::kTokens) return false;
  }
  if (expert == 1) return true;
  const int ranks = strategy.rank_count() / (own_tensor > 0 ? own_tensor : tensor);
  return problem.has_hardware() && problem.rules().allow_estimates && layer.expert_count > 0 &&
         layer.expert_count % expert == 0 && ranks % expert == 0;
}

// Only some targets forbid splits beside a pipeline, splits of layers with experts, spread
// experts, and whole gradients of split layers.
bool TargetSplits(const PlanningProblem& problem, const LayerDefinition& layer,
                  const Strategy& strategy, const PlanShape& shape) {
  const TargetLimits& limits = LimitsOf(problem.rules().target);
  const int inner = strategy.tensor_parallel_degree * strategy.context_parallel_degree;
  if (limits.only_data_parallel_in_pipeline && shape.pipeline_parallel_degree > 1 &&
      inner * strategy.expert_parallel_degree > 1) {
    return false;
  }
  if (limits.whole_expert_layers && layer.expert_count > 0 && inner > 1) return false;
  if (limits.whole_experts && strategy.expert_parallel_degree > 1) return false;
  const bool one_replica = strategy.data_parallel_degree * strategy.context_parallel_degree == 1;
  if (limits.shards_in_pipeline && shape.pipeline_parallel_degree > 1 && !one_replica &&
      strategy.sharding_level == ShardingLevel::kNone) {
    return false;
  }
  return !limits.shards_split_layers || inner == 1 || one_replica ||
         strategy.sharding_level >= ShardingLevel::kGradients;
}

// What torchtitan alone forbids: without a pipeline, replicas that share no parameters; ranks of
// one sequence that share nothing; and experts that are spread otherwise than over sharding ranks.
bool RunsInTorchtitan(const Strategy& strategy, const PlanShape& shape) {
  const ShardingLevel level = strategy.sharding_level;
  const bool one_replica = strategy.data_parallel_degree * strategy.context_parallel_degree == 1;
  if (shape.pipeline_parallel_degree == 1) {
    if (!one_replica && level != ShardingLevel::kParameters) return false;
  } else if (level > ShardingLevel::kOptimizer) {
    return false;
  }
  if (level > ShardingLevel::kNone) {
    return strategy.expert_parallel_degree == 1 || strategy.tensor_parallel_degree == 1;
  }
  return strategy.context_parallel_degree == 1 && strategy.expert_parallel_degree == 1;
}

// What PyTorch's exported plans and torchtitan ask of tensor-parallel ranks: equal parts.
bool HasEqualParts(const PlanningProblem& problem, const LayerDefinition& layer,
                   const Strategy& strategy) {
  const int tensor = strategy.tensor_parallel_degree;
  const int context = strategy.context_parallel_degree;
  const bool is_torchtitan = problem.rules().target == Target::kTorchtitan;
  if (tensor == 1 || (!is_torchtitan && problem.rules().target != Target::kFsdp2)) return true;
  if (!is_torchtitan) {
    if (layer.latent_attention.has_value()) return false;
    if (IsTransformer(layer.kind) && layer.feed_forward_size % tensor != 0) return false;
  }
  const int pieces = is_torchtitan && context > 1 ? 2 * context : context;
  return !strategy.sequence_parallel || layer.sequence_length % (tensor * pieces) == 0;
}

// Whether a model has a module, by the words of Megatron-LM's documentation.
bool ModelHas(const ModelSpec& model, RecomputeModule module) {
  bool has_dense = false;
  bool has_experts = false;
  bool has_shared = false;
  bool has_latent = false;
  bool has_attention = false;
  for (const LayerDefinition& layer : model.layer_definitions()) {
    if (!IsTransformer(layer.kind)) continue;
    has_experts |= layer.expert_count > 0;
    has_shared |= layer.expert_count > 0 && layer.shared_expert_feed_forward_size > 0;
    has_dense |= layer.expert_count == 0 && layer.feed_forward_size > 0;
    has_latent |= layer.latent_attention.has_value();
    has_attention |= HasAttention(layer.kind);
  }
  const std::map<RecomputeModule, bool> found = {
      {RecomputeModule::kCoreAttention, has_attention},
      {RecomputeModule::kExpertActivation, has_experts},
      {RecomputeModule::kNorms, has_experts || has_latent},
      {RecomputeModule::kLatentUpProjection, has_latent},
      {RecomputeModule::kFeedForward, has_dense},
      {RecomputeModule::kExperts, has_experts},
      {RecomputeModule::kSharedExperts, has_shared}};
  return found.at(module);
}

// The two sets of docs/targets.md, of the modules that a model has, with and without attention.
std::vector<Recomputation> ModuleSets(const PlanningProblem& problem) {
  const std::vector<std::vector<RecomputeModule>> wanted = {
      {RecomputeModule::kNorms, RecomputeModule::kExpertActivation,
       RecomputeModule::kLatentUpProjection},
      {RecomputeModule::kNorms, RecomputeModule::kLatentUpProjection, RecomputeModule::kFeedForward,
       RecomputeModule::kExperts}};
  const bool attends = problem.dimensions().has(kSelectiveRecompute) &&
                       ModelHas(problem.model(), RecomputeModule::kCoreAttention);
  std::vector<Recomputation> recomputations;
  for (const std::vector<RecomputeModule>& list : wanted) {
    for (const bool attention : {false, true}) {
      if (attention && !attends) continue;
      std::vector<RecomputeModule> set;
      for (const RecomputeModule module : list) {
        if (ModelHas(problem.model(), module)) set.push_back(module);
      }
      if (set.empty()) continue;
      if (attention) set.push_back(RecomputeModule::kCoreAttention);
      recomputations.emplace_back(*RecomputeModules::Create(set, "recompute_modules"));
    }
  }
  return recomputations;
}

// Recomputations that are worth a name: `kSelective` only where it keeps anything else than
// `kNone`.
std::vector<Recomputation> Recomputations(const PlanningProblem& problem, const CostModel& costs,
                                          int definition_index, Strategy strategy,
                                          const PlanShape& shape) {
  std::vector<Recomputation> levels = {RecomputeLevel::kNone};
  if (!IsTransformer(problem.model().layer_definitions()[definition_index].kind)) return levels;
  const auto kept = [&](RecomputeLevel level) {
    strategy.recompute_level = level;
    return costs.group(kFirstGroup)
        .CostOfLayer(definition_index, strategy, shape.micro_batch_size(),
                     shape.pipeline_parallel_degree)
        .memory.kept;
  };
  if (problem.dimensions().has(kFullRecompute)) levels.push_back(RecomputeLevel::kFull);
  if (problem.dimensions().has(kSelectiveRecompute) &&
      kept(RecomputeLevel::kSelective) != kept(RecomputeLevel::kNone)) {
    levels.push_back(RecomputeLevel::kSelective);
  }
  if (problem.dimensions().has(kModuleRecompute) && problem.has_hardware() &&
      problem.rules().allow_estimates) {
    for (const Recomputation& modules : ModuleSets(problem)) levels.push_back(modules);
  }
  return levels;
}

// Whether two transformer layers count as treated alike: by what a person chooses, so
// not by what follows from the layer.
bool TreatedAlike(Strategy a, Strategy b) {
  a.sequence_parallel = b.sequence_parallel = false;
  a.expert_parallel_degree = b.expert_parallel_degree = 1;
  a.expert_tensor_parallel_degree = b.expert_tensor_parallel_degree = 0;
  return a == b;
}

// Whether an embedding or head does as the transformer layer beside it.
bool FollowsNeighbour(Strategy end, Strategy neighbour) {
  neighbour.set_recomputation(RecomputeLevel::kNone);
  return TreatedAlike(end, neighbour);
}

// Keeps what `keeps` says of a layer's strategies; false when a layer has none left.
template <typename Keeps>
bool Filter(LayerMenus& menus, const Keeps& keeps) {
  for (size_t layer = 0; layer < menus.size(); ++layer) {
    std::vector<Strategy>& menu = menus[layer];
    std::erase_if(
        menu, [&](const Strategy& strategy) { return !keeps(static_cast<int>(layer), strategy); });
    if (menu.empty()) return false;
  }
  return true;
}

// One menu for every strategy that the layers for which `belongs` holds share, as far as
// `alike` asks.
template <typename Belongs, typename Alike>
std::vector<LayerMenus> SplitByOneChoice(const std::vector<LayerMenus>& all, const Belongs& belongs,
                                         const Alike& alike) {
  std::vector<LayerMenus> split;
  for (const LayerMenus& menus : all) {
    int leader = 0;
    while (leader < static_cast<int>(menus.size()) && !belongs(leader)) ++leader;
    if (leader == static_cast<int>(menus.size())) {
      split.push_back(menus);
      continue;
    }
    for (const Strategy& choice : menus[leader]) {
      LayerMenus one = menus;
      if (Filter(one, [&](int layer, const Strategy& strategy) {
            if (layer == leader) return strategy == choice;
            return !belongs(layer) || alike(strategy, choice);
          })) {
        split.push_back(std::move(one));
      }
    }
  }
  return split;
}

// Galvatron's file has these once: one menu for each level of layers with replicas that keep whole
// parameters, and for tensor-parallel layers with and without sequence parallelism.
std::vector<LayerMenus> SplitByCommonSettings(const std::vector<LayerMenus>& all) {
  std::vector<LayerMenus> split;
  for (const LayerMenus& menus : all) {
    for (const ShardingLevel level : {ShardingLevel::kNone, ShardingLevel::kGradients}) {
      for (const bool splits_tokens : {false, true}) {
        LayerMenus one = menus;
        if (Filter(one, [&](int, const Strategy& strategy) {
              const bool has_level = strategy.data_parallel_degree == 1 ||
                                     strategy.sharding_level == ShardingLevel::kParameters ||
                                     strategy.sharding_level == level;
              return has_level && (strategy.tensor_parallel_degree == 1 ||
                                   strategy.sequence_parallel == splits_tokens);
            })) {
          split.push_back(std::move(one));
        }
      }
    }
  }
  return split;
}

// Ends do as their neighbours: one menu for every pair of strategies of these.
std::vector<LayerMenus> SplitByEnds(const PlanningProblem& problem,
                                    const std::vector<LayerMenus>& all) {
  const ModelSpec& model = problem.model();
  int front = 0;
  while (!IsTransformer(model.layer(front).kind)) ++front;
  int back = model.layer_count() - 1;
  while (!IsTransformer(model.layer(back).kind)) --back;
  std::vector<LayerMenus> split;
  for (const LayerMenus& menus : all) {
    for (const Strategy& first : menus[front]) {
      for (const Strategy& last : menus[back]) {
        LayerMenus one = menus;
        if (Filter(one, [&](int layer, const Strategy& strategy) {
              if (layer < front) return FollowsNeighbour(strategy, first);
              if (layer > back) return FollowsNeighbour(strategy, last);
              return (layer != front || strategy == first) && (layer != back || strategy == last);
            })) {
          split.push_back(std::move(one));
        }
      }
    }
  }
  return split;
}

}  // namespace

std::vector<Strategy> StrategiesOf(const PlanningProblem& problem, const CostModel& costs,
                                   int definition_index, const PlanShape& shape) {
  const LayerDefinition& layer = problem.model().layer_definitions()[definition_index];
  const int ranks = problem.device_count() / shape.pipeline_parallel_degree;
  std::vector<Strategy> strategies;
  Strategy s;
  const auto add_levels = [&] {
    for (const ShardingLevel level : {ShardingLevel::kNone, ShardingLevel::kOptimizer,
                                      ShardingLevel::kGradients, ShardingLevel::kParameters}) {
      for (int number = 0; number < ranks * ranks; ++number) {
        s.sharding_level = level;
        s.expert_parallel_degree = number % ranks + 1;
        s.expert_tensor_parallel_degree = number / ranks;
        if (!LevelApplies(problem, layer, s, shape) || !ExpertsApply(layer, s, problem)) continue;
        if (!TargetSplits(problem, layer, s, shape)) continue;
        if (problem.rules().target == Target::kTorchtitan && !RunsInTorchtitan(s, shape)) continue;
        const bool is_split = shape.schedule == Schedule::kZeroBubble;
        if (is_split && level != ShardingLevel::kNone) continue;
        for (int group = 0; group < ranks; ++group) {
          s.sharding_degree = group;
          if (!GroupsApply(problem, s)) continue;
          for (const Recomputation& recomputation :
               Recomputations(problem, costs, definition_index, s, shape)) {
            if (is_split && recomputation != Recomputation(RecomputeLevel::kNone)) continue;
            strategies.push_back(s);
            strategies.back().set_recomputation(recomputation);
          }
        }
        s.sharding_degree = 0;
      }
    }
  };
  for (int tensor = 1; tensor <= ranks; ++tensor) {
    for (int context = 1; context <= ranks; ++context) {
      if (ranks % (tensor * context) != 0) continue;
      for (const ContextKind kind :
           {ContextKind::kRing, ContextKind::kUlysses, ContextKind::kAllGather}) {
        for (const RankOrder order : {RankOrder::kTensorInnermost, RankOrder::kDataInnermost}) {
          s.tensor_parallel_degree = tensor;
          s.context_parallel_degree = context;
          s.data_parallel_degree = ranks / (tensor * context);
          s.context_kind = kind;
          s.rank_order = order;
          s.sequence_parallel =
              tensor > 1 && costs.group(kFirstGroup).sequence_parallel(definition_index);
          if (SpreadApplies(problem, layer, s, shape) && HasEqualParts(problem, layer, s)) {
            add_levels();
          }
        }
      }
    }
  }
  return strategies;
}

std::vector<LayerMenus> MenusOf(const PlanningProblem& problem, const CostModel& costs,
                                const PlanShape& shape) {
  const ModelSpec& model = problem.model();
  const DimensionSet dimensions = problem.dimensions();
  LayerMenus everything;
  for (int definition : model.definition_of_layer()) {
    everything.push_back(StrategiesOf(problem, costs, definition, shape));
    if (everything.back().empty()) return {};
  }
  std::vector<LayerMenus> all = {everything};
  const auto is_transformer = [&model](int layer) {
    return IsTransformer(model.layer(layer).kind);
  };
  if (!dimensions.has(kPerLayer)) all = SplitByOneChoice(all, is_transformer, TreatedAlike);
  if (!dimensions.has(kEndStrategies)) all = SplitByEnds(problem, all);
  if (LimitsOf(problem.rules().target).one_expert_degree) {
    const auto has_experts = [&model](int layer) { return model.layer(layer).expert_count > 0; };
    all = SplitByOneChoice(all, has_experts, [](const Strategy& a, const Strategy& b) {
      return a.expert_parallel_degree == b.expert_parallel_degree &&
             a.expert_tensor_parallel_degree == b.expert_tensor_parallel_degree;
    });
  }
  if (problem.rules().target == Target::kGalvatron) {
    all = SplitByCommonSettings(all);
    const auto is_end = [&](int layer) { return !is_transformer(layer); };
    all = SplitByOneChoice(all, is_end, std::equal_to<>());
  }
  const auto shares_table = [&](int layer) { return SharesTable(problem, model.layer(layer)); };
  all = SplitByOneChoice(all, shares_table, HoldSamePart);
  for (int definition = 0; definition < static_cast<int>(model.layer_definitions().size());
       ++definition) {
    const auto is_of_definition = [&](int layer) {
      return model.definition_of_layer()[layer] == definition &&
             (shape.virtual_stage_count > 1 ||
              (!dimensions.has(kPerLayer) && is_transformer(layer)));
    };
    all = SplitByOneChoice(all, is_of_definition, std::equal_to<>());
  }
  return all;
}

std::vector<std::vector<Strategy>> BlocksOf(const PlanningProblem& problem, const LayerMenus& menus,
                                            const std::vector<int>& partition) {
  const ModelSpec& model = problem.model();
  const DimensionSet dimensions = problem.dimensions();
  std::vector<std::vector<Strategy>> plans;
  if (!dimensions.has(kBlockRecompute) || !dimensions.has(kFullRecompute)) return plans;
  if (dimensions.has(kPerLayer) || dimensions.has(kEndStrategies)) return plans;
  std::vector<std::vector<Strategy>> without = {{}};
  for (int layer = 0; layer < model.layer_count(); ++layer) {
    std::vector<std::vector<Strategy>> longer;
    for (const std::vector<Strategy>& begun : without) {
      for (const Strategy& strategy : menus[layer]) {
        if (strategy.recompute_level != RecomputeLevel::kNone) continue;
        longer.push_back(begun);
        longer.back().push_back(strategy);
      }
    }
    without = std::move(longer);
  }
  for (const std::vector<Strategy>& plan : without) {
    for (int most = 1; most <= model.layer_count(); ++most) {
      std::vector<Strategy> blocks = plan;
      bool leaves_any = false;
      int layer = 0;
      for (const int size : partition) {
        int done = 0;
        for (const int end = layer + size; layer < end; ++layer) {
          const LayerDefinition& definition = model.layer(layer);
          if (!IsTransformer(definition.kind)) continue;
          if (definition.prediction_depth > 0 || done == most) {
            leaves_any = true;
            continue;
          }
          blocks[layer].recompute_level = RecomputeLevel::kFull;
          ++done;
        }
      }
      if (leaves_any) plans.push_back(std::move(blocks));
    }
  }
  return plans;
}

}  // namespace parplan
