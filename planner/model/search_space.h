// The space of plans in which a search looks for its answer. `PlanningRules` names a space and a
// target; planner/search/space searches in it and planner/check checks it.

#ifndef PARPLAN_PLANNER_MODEL_SEARCH_SPACE_H_
#define PARPLAN_PLANNER_MODEL_SEARCH_SPACE_H_

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "planner/model/layer_definition.h"
#include "planner/model/model_spec.h"
#include "planner/model/strategy.h"

namespace parplan {

// The dimensions that a search may vary. Without a dimension, plans have the value in brackets.
enum class SearchDimension {
  kPipeline,            // `pipeline`: more than one stage [1]
  kUnevenStages,        // `uneven-stages`: stages of any sizes [as many transformer layers each,
                        // the layers before them in the first stage, those after in the last]
  kPerLayer,            // `per-layer`: transformer layers differ in strategy [all alike]
  kEndStrategies,       // `end-strategies`: embedding and head have strategies of their own
                        // [the degrees and level of the layers beside them]
  kTensor,              // `tensor`: tensor parallelism [1]
  kRankOrder,           // `rank-order`: either axis innermost [tensor parallelism]
  kOptimizerSharding,   // `zero-1`
  kGradientSharding,    // `zero-2`
  kParameterSharding,   // `zero-3`
  kUlysses,             // `ulysses`: context parallelism by all-to-all
  kContext,             // `context`: context parallelism by ring attention, or as the target has
                        // it (`TargetLimits::context_kind`)
  kSelectiveRecompute,  // `recompute-selective`
  kFullRecompute,       // `recompute-full`
  kGpipe,               // `gpipe`: also this schedule [1F1B]
  kInterleaved,         // `interleaved`: also several virtual stages a device [1F1B]
  kBlockRecompute,      // `recompute-block`: the first layers of each stage recomputed
                        // (`AllowsBlocks`) [all or none of them]
  kGroupSize,           // `group-size`: interleaved, groups of more micro-batches than the pipeline
                        // degree [as many]
  kModuleRecompute,     // `recompute-modules`: modules of layers recomputed (`SearchedModuleSets`)
  kExpertTensor,        // `expert-tensor`: experts are whole where the rest of their layer is split
                        // [split alike]
  kZeroBubble,          // `zero-bubble`: also the schedule ZB-H1, whose backward passes have two
                        // parts [1F1B]
  kHybridSharding,      // `hybrid-sharding`: states shared by groups of the ranks with the same
                        // parameters [by all of them]
};
inline constexpr int kSearchDimensionCount = 21;

// Returns the name in quotes above.
absl::string_view SearchDimensionName(SearchDimension dimension);

// A set of dimensions. Plain value.
class DimensionSet {
 public:
  // Returns the set of all dimensions; the default is none.
  static constexpr DimensionSet All() { return DimensionSet((1u << kSearchDimensionCount) - 1); }
  constexpr DimensionSet() = default;

  // Return whether the set has a dimension, and the set with it and without it.
  constexpr bool has(SearchDimension dimension) const { return (bits_ & Bit(dimension)) != 0; }
  constexpr DimensionSet With(SearchDimension dimension) const {
    return DimensionSet(bits_ | Bit(dimension));
  }
  constexpr DimensionSet Without(SearchDimension dimension) const {
    return DimensionSet(bits_ & ~Bit(dimension));
  }
  friend constexpr DimensionSet operator&(DimensionSet a, DimensionSet b) {
    return DimensionSet(a.bits_ & b.bits_);
  }
  friend constexpr bool operator==(DimensionSet, DimensionSet) = default;

  // Returns `all`, `none`, or the names joined by commas in the order of the enum; if few are
  // missing, `all,-gpipe,-context`.
  std::string ToString() const;
  // Reads the output of `ToString`, and any list of names from left to right, without spaces. The
  // first entry may be `all` or `none`, from which the list then starts; a list that begins with
  // `-` starts from `all`, any other from `none`. `+name` and `name` add a dimension, `-name`
  // removes it; a name may come twice. Returns INVALID_ARGUMENT (SPEC_INVALID) for an unknown name,
  // as which an empty text counts; the error names `field`, the name and those that exist.
  static absl::StatusOr<DimensionSet> Parse(absl::string_view text, absl::string_view field);

 private:
  constexpr explicit DimensionSet(uint32_t bits) : bits_(bits) {}
  static constexpr uint32_t Bit(SearchDimension dimension) {
    return 1u << static_cast<int>(dimension);
  }
  uint32_t bits_ = 0;
};

// Returns whether plans of a space with these dimensions may recompute only the first layers of
// each stage ("block recomputation"): with `recompute-block` and `recompute-full` where all layers
// have one strategy otherwise, that is, without `per-layer` and `end-strategies`. Where layers have
// strategies of their own, the first dimension says nothing.
//
// Some number n above 0 holds for the whole plan: in each stage, and in each virtual stage, the
// first n transformer layers that `IsRecomputedInBlocks` are recomputed, or all if there are fewer.
bool AllowsBlocks(DimensionSet dimensions);

// Returns whether block recomputation counts layers of the definition: transformer layers that do
// not predict further tokens.
bool IsRecomputedInBlocks(const LayerDefinition& layer);

// The program that will run the plan; some programs can run only some plans. docs/targets.md has
// the source of each limit.
enum class Target {
  kParplan = 1,
  kMegatron = 2,
  kDeepSpeed = 3,
  kGalvatron = 4,
  kTorchtitan = 5,
  kFsdp2 = 6,
  kAccelerate = 7,
};

// The limits of a target: a row of a table. A new limit is a member whose default restricts
// nothing; planner/search/space/strategy_space.cc searches within it,
// planner/check/declared_space.cc checks it, and tests/support/brute_force_menus.cc states it once
// more.
struct TargetLimits {
  Target target = Target::kParplan;
  // The name in quotes of `FindTarget`.
  absl::string_view name;
  // The runtime (planner/model/runtime_traits.h) that predicts plans of questions that name none.
  absl::string_view runtime_id;
  // The dimensions that may vary in plans for the target.
  DimensionSet dimensions;
  // All degrees are powers of two.
  bool only_powers_of_two = false;
  // Highest sharding level with more than one stage.
  ShardingLevel most_sharding_in_pipeline = ShardingLevel::kParameters;
  // The same for layers that hold a tied table (planner/model/tied_table.h).
  ShardingLevel most_tied_sharding_in_pipeline = ShardingLevel::kParameters;
  // A layer splits heads and sequence by tensor parallelism or by Ulysses, never by both. Layers of
  // one plan may differ in this.
  bool one_inner_axis = false;
  // Twice the context-parallel degree divides the sequence also with Ulysses, because the program
  // balances causal attention by giving each rank one part from either end.
  bool context_in_two_parts = false;
  // Gradients and parameters are sharded beside tensor parallelism only with sequence parallelism.
  bool sharding_needs_sequence_parallel = false;
  // The same for tensor parallelism in models with experts.
  bool experts_need_sequence_parallel = false;
  // Layers with experts share them over equally many ranks, whatever their definitions.
  bool one_expert_degree = false;
  // With more than one stage, layers are split by data parallelism alone.
  bool only_data_parallel_in_pipeline = false;
  // Layers with experts are split by neither tensor nor context parallelism.
  bool whole_expert_layers = false;
  // Experts are never spread over ranks.
  bool whole_experts = false;
  // Layers with several replicas shard their gradients at least where tensor or context parallelism
  // splits them.
  bool shards_split_layers = false;
  // With more than one stage, layers with several replicas shard at least optimizer states.
  bool shards_in_pipeline = false;
  // With one stage, layers with several replicas shard their parameters.
  bool shards_parameters_of_one_stage = false;
  // Layers that context parallelism splits shard at least optimizer states.
  bool shards_beside_context = false;
  // Experts are spread only in layers that shard something and that tensor parallelism leaves
  // whole.
  bool spread_experts_are_sharded = false;
  // Models with a tied table have one stage.
  bool one_stage_with_tied_table = false;
  // Highest number of virtual stages a device.
  int most_virtual_stages = std::numeric_limits<int>::max();
  // Tensor parallelism splits no layer with latent attention.
  bool whole_latent_attention = false;
  // Tensor-parallel ranks have equal parts of the feed-forward width.
  bool equal_feed_forward_shares = false;
  // Ranks of sequence parallelism have equally many tokens, in both parts of `context_in_two_parts`
  // if that holds.
  bool equal_token_shares = false;
  // A layer whose data-parallel degree is 1 shards nothing, whatever its context-parallel degree.
  bool sharding_needs_data_parallel = false;
  // All layers whose data-parallel degree is above 1 and that do not shard parameters shard
  // gradients, or none does, because the target has their level once for all layers.
  bool one_level_below_parameters = false;
  // All layers that tensor parallelism splits have sequence parallelism, or none has.
  bool one_sequence_parallel = false;
  // Embedding and head have one strategy.
  bool ends_alike = false;
  // Each stage holds a transformer layer.
  bool transformer_in_each_stage = false;
  // Highest sharding level of states that groups of ranks share (`Strategy::sharding_degree`).
  ShardingLevel most_hybrid_sharding = ShardingLevel::kParameters;
  // Context-parallel ranks are within one such group.
  bool shares_states_beside_context = false;
  // The kind of context parallelism that `context` adds: `kRing` or `kAllGather`.
  ContextKind context_kind = ContextKind::kRing;
};

// Returns whether the target runs a strategy as far as tensor parallelism without sequence
// parallelism is concerned.
bool SplitsAsAllowed(const TargetLimits& limits, const Strategy& strategy, bool model_has_experts);

// Returns whether the limits from `only_data_parallel_in_pipeline` to `spread_experts_are_sharded`
// allow `strategy` for a layer that has experts or not, in a plan that has one stage or more. The
// sharding level counts only if `with_level`.
bool AllowsCombination(const TargetLimits& limits, const Strategy& strategy, bool has_experts,
                       bool has_pipeline, bool with_level);

// Returns whether `whole_latent_attention`, `equal_feed_forward_shares` and `equal_token_shares`
// allow `strategy` for `layer`. Its sharding and recomputation do not count.
bool SharesAsAllowed(const TargetLimits& limits, const LayerDefinition& layer,
                     const Strategy& strategy);

// Returns whether `most_hybrid_sharding` and `shares_states_beside_context` allow the sharding of
// `strategy`.
bool AllowsHybridSharding(const TargetLimits& limits, const Strategy& strategy);

// Returns whether plans of the model may have several stages, as far as
// `one_stage_with_tied_table` is concerned.
bool AllowsPipeline(const TargetLimits& limits, const ModelSpec& model);

// Returns the limits of all targets, `kParplan` first, in the order of their numbers. The table is
// static.
absl::Span<const TargetLimits> KnownTargets();
// Returns the row of `target`, one of the values above; aborts for another.
const TargetLimits& LimitsOf(Target target);

// Returns the limits of the target with this name (`parplan`, `megatron`, `deepspeed`, `galvatron`,
// `torchtitan`, `fsdp2`, `accelerate`), a row of `KnownTargets`, or null.
const TargetLimits* FindTarget(absl::string_view name);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_SEARCH_SPACE_H_
