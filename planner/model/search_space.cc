#include "planner/model/search_space.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/error.h"
#include "planner/model/tied_table.h"

namespace parplan {
namespace {

using enum SearchDimension;

constexpr std::array<absl::string_view, kSearchDimensionCount> kNames = {
    "pipeline",        "uneven-stages", "per-layer",
    "end-strategies",  "tensor",        "rank-order",
    "zero-1",          "zero-2",        "zero-3",
    "ulysses",         "context",       "recompute-selective",
    "recompute-full",  "gpipe",         "interleaved",
    "recompute-block", "group-size",    "recompute-modules",
    "expert-tensor",   "zero-bubble",   "hybrid-sharding"};

std::optional<SearchDimension> FindDimension(absl::string_view name) {
  for (int i = 0; i < kSearchDimensionCount; ++i) {
    if (kNames[i] == name) return static_cast<SearchDimension>(i);
  }
  return std::nullopt;
}

std::vector<absl::string_view> NamesIn(DimensionSet set, bool wanted) {
  std::vector<absl::string_view> names;
  for (int i = 0; i < kSearchDimensionCount; ++i) {
    if (set.has(static_cast<SearchDimension>(i)) == wanted) names.push_back(kNames[i]);
  }
  return names;
}

}  // namespace

absl::string_view SearchDimensionName(SearchDimension dimension) {
  return kNames[static_cast<int>(dimension)];
}

std::string DimensionSet::ToString() const {
  const std::vector<absl::string_view> in = NamesIn(*this, true);
  const std::vector<absl::string_view> out = NamesIn(*this, false);
  if (out.empty()) return "all";
  if (in.empty()) return "none";
  if (out.size() < in.size()) return absl::StrCat("all,-", absl::StrJoin(out, ",-"));
  return absl::StrJoin(in, ",");
}

absl::StatusOr<DimensionSet> DimensionSet::Parse(absl::string_view text, absl::string_view field) {
  DimensionSet set;
  bool is_first = true;
  for (absl::string_view name : absl::StrSplit(text, ',')) {
    const bool removes = absl::ConsumePrefix(&name, "-");
    if (!removes) absl::ConsumePrefix(&name, "+");
    if (is_first && (removes || name == "all")) set = All();
    const bool is_set = is_first && !removes && (name == "all" || name == "none");
    is_first = false;
    if (is_set) continue;
    const std::optional<SearchDimension> dimension = FindDimension(name);
    if (!dimension.has_value()) {
      return FieldError(
          Reason::kSpecInvalid, field,
          absl::StrCat("`", name, "` is no dimension; name some of ", absl::StrJoin(kNames, ", "),
                       ", or begin with `all` or `none`, and take away with `-`"));
    }
    set = removes ? set.Without(*dimension) : set.With(*dimension);
  }
  return set;
}

bool AllowsBlocks(DimensionSet dimensions) {
  return dimensions.has(kBlockRecompute) && dimensions.has(kFullRecompute) &&
         !dimensions.has(kPerLayer) && !dimensions.has(kEndStrategies);
}

bool IsRecomputedInBlocks(const LayerDefinition& layer) {
  return IsTransformer(layer.kind) && layer.prediction_depth == 0;
}

bool SplitsAsAllowed(const TargetLimits& limits, const Strategy& strategy, bool model_has_experts) {
  if (strategy.tensor_parallel_degree == 1 || strategy.sequence_parallel) return true;
  if (limits.experts_need_sequence_parallel && model_has_experts) return false;
  return !limits.sharding_needs_sequence_parallel ||
         strategy.sharding_level < ShardingLevel::kGradients;
}

absl::Span<const TargetLimits> KnownTargets() {
  static const std::array<TargetLimits, 7> targets = {{
      // Its executor adds up whole gradients of a table that two stages hold, keeps no messages
      // from before their turn, has one group of ranks for the states of a layer, and computes both
      // kinds of gradients in one backward pass.
      {.target = Target::kParplan,
       .name = "parplan",
       .runtime_id = "parplan",
       .dimensions = DimensionSet::All()
                         .Without(kGroupSize)
                         .Without(kModuleRecompute)
                         .Without(kZeroBubble)
                         .Without(kHybridSharding),
       .most_tied_sharding_in_pipeline = ShardingLevel::kNone},
      // Megatron Core: one strategy for all layers in any layout of stages. Its distributed
      // optimizer shards optimizer states; gradients and parameters are sharded by Megatron-FSDP,
      // which is one stage.
      {.target = Target::kMegatron,
       .name = "megatron",
       .runtime_id = "megatron-core",
       .dimensions = DimensionSet()
                         .With(kPipeline)
                         .With(kUnevenStages)
                         .With(kTensor)
                         .With(kOptimizerSharding)
                         .With(kGradientSharding)
                         .With(kParameterSharding)
                         .With(kUlysses)
                         .With(kContext)
                         .With(kSelectiveRecompute)
                         .With(kFullRecompute)
                         .With(kInterleaved)
                         .With(kBlockRecompute)
                         .With(kGroupSize)
                         .With(kModuleRecompute)
                         .With(kExpertTensor)
                         .With(kHybridSharding),
       .most_sharding_in_pipeline = ShardingLevel::kOptimizer,
       .most_tied_sharding_in_pipeline = ShardingLevel::kOptimizer,
       .context_in_two_parts = true,
       .sharding_needs_sequence_parallel = true,
       .experts_need_sequence_parallel = true,
       .one_expert_degree = true,
       .most_hybrid_sharding = ShardingLevel::kOptimizer},
      // DeepSpeed 0.19 (docs/exports.md has the source of each limit): its pipeline engine knows
      // neither AutoTP nor Ulysses nor AutoEP, and shards optimizer states, in bf16 always; the
      // first two make groups of two axes; AutoEP keeps experts whole.
      {.target = Target::kDeepSpeed,
       .name = "deepspeed",
       .runtime_id = "deepspeed",
       .dimensions = DimensionSet()
                         .With(kPipeline)
                         .With(kTensor)
                         .With(kOptimizerSharding)
                         .With(kGradientSharding)
                         .With(kParameterSharding)
                         .With(kUlysses)
                         .With(kFullRecompute),
       .most_sharding_in_pipeline = ShardingLevel::kOptimizer,
       .one_inner_axis = true,
       .one_expert_degree = true,
       .only_data_parallel_in_pipeline = true,
       .whole_expert_layers = true,
       .shards_in_pipeline = true},
      // The public Galvatron engine (docs/papers.md 12): powers of two, layer by
      // layer, tensor parallelism or Ulysses. Its file (docs/exports.md) has one strategy for
      // embedding and head, numbers of transformer layers for stages, and `default_dp_type` and
      // sequence parallelism once.
      {.target = Target::kGalvatron,
       .name = "galvatron",
       .runtime_id = "parplan",
       .dimensions = DimensionSet()
                         .With(kPipeline)
                         .With(kUnevenStages)
                         .With(kPerLayer)
                         .With(kEndStrategies)
                         .With(kTensor)
                         .With(kGradientSharding)
                         .With(kParameterSharding)
                         .With(kUlysses)
                         .With(kFullRecompute)
                         .With(kGpipe),
       .only_powers_of_two = true,
       .one_inner_axis = true,
       .whole_experts = true,
       .sharding_needs_data_parallel = true,
       .one_level_below_parameters = true,
       .one_sequence_parallel = true,
       .ends_alike = true,
       .transformer_in_each_stage = true},
      // torchtitan 0.3.0 of PyPI (docs/exports.md has the source of each limit): one strategy for
      // all layers. In a pipeline it reduces gradients behind the last micro-batch and keeps the
      // parameters of three stages whole, which is ZeRO-1; without one FSDP2 gathers in each
      // accumulation step. Context-parallel ranks gather keys and values.
      {.target = Target::kTorchtitan,
       .name = "torchtitan",
       .runtime_id = "torchtitan",
       .dimensions = DimensionSet()
                         .With(kPipeline)
                         .With(kUnevenStages)
                         .With(kTensor)
                         .With(kOptimizerSharding)
                         .With(kParameterSharding)
                         .With(kContext)
                         .With(kFullRecompute)
                         .With(kInterleaved)
                         .With(kHybridSharding),
       .most_sharding_in_pipeline = ShardingLevel::kOptimizer,
       .most_tied_sharding_in_pipeline = ShardingLevel::kNone,
       .context_in_two_parts = true,
       .one_expert_degree = true,
       .shards_parameters_of_one_stage = true,
       .shards_beside_context = true,
       .spread_experts_are_sharded = true,
       .one_stage_with_tied_table = true,
       .most_virtual_stages = 3,
       .equal_token_shares = true,
       .shares_states_beside_context = true,
       .context_kind = ContextKind::kAllGather},
      // Plain PyTorch 2.6 to 2.15 by fsdp2.json (docs/exports.md): layer by layer, no messages
      // between the ranks of experts, and a table of two stages is added up as a whole.
      {.target = Target::kFsdp2,
       .name = "fsdp2",
       .runtime_id = "torch",
       .dimensions = DimensionSet::All()
                         .Without(kUlysses)
                         .Without(kGroupSize)
                         .Without(kModuleRecompute)
                         .Without(kExpertTensor),
       .most_tied_sharding_in_pipeline = ShardingLevel::kNone,
       .whole_experts = true,
       .whole_latent_attention = true,
       .equal_feed_forward_shares = true,
       .equal_token_shares = true},
      // Accelerate 1.15 with PyTorch's FSDP2, which its ParallelismConfig configures: no pipeline.
      // Parameters are gathered for each micro-batch, so that ZeRO-2 is none of its levels. Tensor
      // parallelism is that of transformers, which its runtime predicts.
      {.target = Target::kAccelerate,
       .name = "accelerate",
       .runtime_id = "accelerate",
       .dimensions = DimensionSet()
                         .With(kTensor)
                         .With(kParameterSharding)
                         .With(kContext)
                         .With(kFullRecompute),
       .whole_expert_layers = true,
       .whole_experts = true,
       .shards_split_layers = true},
  }};
  return targets;
}

const TargetLimits& LimitsOf(Target target) {
  const absl::Span<const TargetLimits> targets = KnownTargets();
  const auto* const found =
      std::find_if(targets.begin(), targets.end(),
                   [target](const TargetLimits& limits) { return limits.target == target; });
  PARPLAN_CHECK(found != targets.end());
  return *found;
}

bool AllowsCombination(const TargetLimits& limits, const Strategy& strategy, bool has_experts,
                       bool has_pipeline, bool with_level) {
  const bool is_split = strategy.tensor_parallel_degree > 1 || strategy.context_parallel_degree > 1;
  const bool spreads_experts = strategy.expert_parallel_degree > 1;
  if (limits.only_data_parallel_in_pipeline && has_pipeline && (is_split || spreads_experts)) {
    return false;
  }
  if (limits.whole_expert_layers && has_experts && is_split) return false;
  if (limits.whole_experts && spreads_experts) return false;
  if (limits.spread_experts_are_sharded && spreads_experts && strategy.tensor_parallel_degree > 1) {
    return false;
  }
  const int replicas = strategy.data_parallel_degree * strategy.context_parallel_degree;
  if (!with_level || replicas == 1) return true;
  const bool must_shard = (limits.shards_in_pipeline && has_pipeline) ||
                          (limits.shards_beside_context && strategy.context_parallel_degree > 1) ||
                          (limits.spread_experts_are_sharded && spreads_experts);
  if (must_shard && strategy.sharding_level == ShardingLevel::kNone) return false;
  if (limits.shards_parameters_of_one_stage && !has_pipeline &&
      strategy.sharding_level != ShardingLevel::kParameters) {
    return false;
  }
  return !limits.shards_split_layers || !is_split ||
         strategy.sharding_level >= ShardingLevel::kGradients;
}

bool SharesAsAllowed(const TargetLimits& limits, const LayerDefinition& layer,
                     const Strategy& strategy) {
  const int tensor = strategy.tensor_parallel_degree;
  if (tensor == 1) return true;
  if (limits.whole_latent_attention && layer.latent_attention.has_value()) return false;
  if (limits.equal_feed_forward_shares && IsTransformer(layer.kind) &&
      layer.feed_forward_size % tensor != 0) {
    return false;
  }
  const int context = strategy.context_parallel_degree;
  const int parts = limits.context_in_two_parts && context > 1 ? 2 * context : context;
  return !limits.equal_token_shares || !strategy.sequence_parallel ||
         layer.sequence_length % (int64_t{parts} * tensor) == 0;
}

bool AllowsHybridSharding(const TargetLimits& limits, const Strategy& strategy) {
  if (strategy.sharding_degree == 0) return true;
  if (strategy.sharding_level > limits.most_hybrid_sharding) return false;
  return !limits.shares_states_beside_context ||
         strategy.sharding_degree % strategy.context_parallel_degree == 0;
}

bool AllowsPipeline(const TargetLimits& limits, const ModelSpec& model) {
  return !limits.one_stage_with_tied_table || !HasTiedTable(model);
}

const TargetLimits* FindTarget(absl::string_view name) {
  for (const TargetLimits& limits : KnownTargets()) {
    if (limits.name == name) return &limits;
  }
  return nullptr;
}

}  // namespace parplan
