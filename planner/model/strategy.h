// The strategy of a layer: how it is spread over the ranks of its stage. A plan (plan.h) holds one
// for each run of layers.

#ifndef PARPLAN_PLANNER_MODEL_STRATEGY_H_
#define PARPLAN_PLANNER_MODEL_STRATEGY_H_

#include <compare>
#include <string>

#include "absl/strings/string_view.h"
#include "planner/model/recompute_modules.h"

namespace parplan {

// The part of a layer's states that ranks with the same parameters split among them instead of each
// holding all (ZeRO's levels): nothing; the optimizer's states; these and gradients; these and
// parameters. The numbers are those of proto/parplan/v1/plan.proto. `kNone` and `kParameters` are
// DP and SDP of the Galvatron papers (docs/papers.md 6).
enum class ShardingLevel { kNone = 1, kOptimizer = 2, kGradients = 3, kParameters = 4 };

// The axis of the rank grid whose ranks are neighbours. If either degree is 1 the order has no
// meaning, and the canonical value is `kTensorInnermost`.
enum class RankOrder { kTensorInnermost = 1, kDataInnermost = 2 };

// The part of a layer's forward pass that is repeated before its backward pass.
enum class RecomputeLevel {
  kNone = 1,
  // The whole layer, from its input.
  kFull = 2,
  // By `RuntimeTraits::selective_recompute`: only attention scores, softmax, dropout and their
  // product with the values (Korthikanti et al., section 5), which frees little with fused
  // attention; or by operator, as trainers on PyTorch's FSDP do.
  kSelective = 3,
  // The modules that the strategy names, each from its own input (Megatron-LM's
  // `--recompute-modules`).
  kModules = 4,
};

// A level, and the modules of `kModules`; no modules for the other levels.
struct Recomputation {
  RecomputeLevel level = RecomputeLevel::kNone;
  RecomputeModules modules;

  Recomputation() = default;
  // Every level but `kModules` says all.
  Recomputation(RecomputeLevel one) : level(one) {}  // NOLINT(google-explicit-constructor)
  explicit Recomputation(RecomputeModules some) : level(RecomputeLevel::kModules), modules(some) {}

  friend bool operator==(const Recomputation&, const Recomputation&) = default;
};

// A level, and the ranks that share the states (`Strategy::sharding_degree`); 0 for `kNone`.
struct Sharding {
  ShardingLevel level = ShardingLevel::kNone;
  int degree = 0;

  Sharding() = default;
  // All ranks with the same parameters share them.
  Sharding(ShardingLevel one) : level(one) {}  // NOLINT(google-explicit-constructor)
  Sharding(ShardingLevel one, int ranks) : level(one), degree(ranks) {}

  friend auto operator<=>(const Sharding&, const Sharding&) = default;
};

// The way in which ranks that share the tokens of a sample attend to each other's tokens.
enum class ContextKind {
  // Keys and values go round from rank to rank (ring attention).
  kRing = 1,
  // All-to-alls exchange tokens for heads before attention, and back after it (DeepSpeed-Ulysses).
  // The degree also divides heads.
  kUlysses = 2,
  // Every rank gathers the keys and values of all tokens before attention (Megatron-LM's
  // `allgather`).
  kAllGather = 3,
};

// Returns `ring`, `ulysses` or `all_gather`.
absl::string_view ContextKindName(ContextKind kind);

// A strategy of one layer. The pipeline degree belongs to the plan. Strategies are compared field
// by field in the order below, which also breaks ties in every search.
struct Strategy {
  // Number of ranks that share each matrix of the layer, and number of groups of ranks that each
  // have samples of their own.
  int tensor_parallel_degree = 1;
  int data_parallel_degree = 1;
  RankOrder rank_order = RankOrder::kTensorInnermost;
  // Data- and context-parallel ranks share the states; `kNone` if both degrees are 1.
  ShardingLevel sharding_level = ShardingLevel::kNone;
  // `kNone` for layers that are no transformer layers (`IsTransformer`).
  RecomputeLevel recompute_level = RecomputeLevel::kNone;
  // Megatron's sequence parallelism; only with tensor_parallel_degree > 1.
  bool sequence_parallel = false;
  // Number of ranks that share the tokens of each sample. This axis of the grid lies between those
  // of tensor and data parallelism.
  int context_parallel_degree = 1;
  // Number of data- and context-parallel ranks that share the experts of a layer; divides the
  // product of these two degrees or, with an `expert_tensor_parallel_degree`, the ranks of the
  // stage over that. 1 for layers without experts. On devices with data sheets `exact` searches it,
  // and so do `megatron` and `fsdp-best` (uniform_search.h); the methods of the other planners
  // leave it at 1.
  int expert_parallel_degree = 1;
  // `kRing` if context_parallel_degree is 1.
  ContextKind context_kind = ContextKind::kRing;
  // Not empty if and only if recompute_level is `kModules`. May have modules that the layer does
  // not have: Megatron-LM takes one set for all transformer layers (`Target::kMegatron`, its
  // export).
  RecomputeModules recompute_modules;
  // Number of ranks that share the matrices of each expert where it is not tensor_parallel_degree,
  // which 0 stands for (Megatron-LM's `--expert-tensor-parallel-size`). These ranks are neighbours,
  // beside them those that share the experts, and then those that have the same ones. Only for
  // layers with experts, with `kTensorInnermost`, and with tensor parallelism only with sequence
  // parallelism; divides the ranks of the stage and the width of an expert.
  int expert_tensor_parallel_degree = 0;
  // Number of neighbouring context-parallel ranks that exchange tokens for heads inside a ring of
  // such groups (Megatron-LM's `a2a+p2p`): with `kRing` a divisor of context_parallel_degree below
  // it, else 1. No planner searches above 1.
  int context_exchange_degree = 1;
  // Number of data- and context-parallel ranks that share the states where it is not all of them,
  // which 0 stands for ("hybrid sharding": HSDP of PyTorch, MiCS, Megatron-LM's
  // `--num-distributed-optimizer-instances`). These ranks are neighbours among those with the same
  // parameters, so that a group stays inside a node where it can; each group has all states once.
  // Only with a sharding level; divides data_parallel_degree * context_parallel_degree, and is
  // above 1 and below it. Ranks that share experts are within one group.
  int sharding_degree = 0;

  // Returns the number of context-parallel ranks that share the heads of a rank.
  int head_exchange_degree() const {
    return context_kind == ContextKind::kUlysses ? context_parallel_degree
                                                 : context_exchange_degree;
  }
  // Returns whether a rank has a piece from either end of each sequence, so that causal attention
  // costs all ranks the same; Ulysses gives it one piece.
  bool has_two_pieces() const {
    return context_parallel_degree > 1 && context_kind != ContextKind::kUlysses;
  }
  // Returns the ranks that share the matrices of each expert, with the default of 0 filled in.
  int expert_tensor_degree() const {
    return expert_tensor_parallel_degree > 0 ? expert_tensor_parallel_degree
                                             : tensor_parallel_degree;
  }
  // Returns the number of ranks of the stage that have the same part of the same experts.
  int expert_replica_count() const {
    return rank_count() / (expert_tensor_degree() * expert_parallel_degree);
  }
  // Returns the number of ranks with the same parameters: the product of the data- and
  // context-parallel degrees.
  int replica_count() const { return data_parallel_degree * context_parallel_degree; }
  // Returns the number of those that share the states, if any do.
  int shard_count() const { return sharding_degree > 0 ? sharding_degree : replica_count(); }
  // Returns the number of groups of such ranks: the copies of the states. 1 but for hybrid
  // sharding.
  int shard_group_count() const { return replica_count() / shard_count(); }
  // Returns the number of ranks that share the states of the same part of the same experts.
  int expert_shard_count() const { return expert_replica_count() / shard_group_count(); }
  // Returns whether the ranks that share experts are within one group that shares states.
  bool has_experts_in_groups() const {
    return tensor_parallel_degree * shard_count() %
               (expert_tensor_degree() * expert_parallel_degree) ==
           0;
  }
  // Returns and sets level and degree together.
  Sharding sharding() const { return {sharding_level, sharding_degree}; }
  void set_sharding(const Sharding& sharding) {
    sharding_level = sharding.level;
    sharding_degree = sharding.degree;
  }
  // Returns and sets level and modules together.
  Recomputation recomputation() const {
    Recomputation both(recompute_level);
    both.modules = recompute_modules;
    return both;
  }
  void set_recomputation(const Recomputation& recomputation) {
    recompute_level = recomputation.level;
    recompute_modules = recomputation.modules;
  }
  // Returns the ranks of the stage: the product of the tensor-, context- and data-parallel degrees.
  int rank_count() const {
    return tensor_parallel_degree * context_parallel_degree * data_parallel_degree;
  }
  // Returns the distance in rank numbers between neighbours of a tensor-parallel group.
  int tensor_stride() const {
    return rank_order == RankOrder::kTensorInnermost
               ? 1
               : data_parallel_degree * context_parallel_degree;
  }
  // Returns the same distance for a context-parallel group.
  int context_stride() const {
    return rank_order == RankOrder::kTensorInnermost ? tensor_parallel_degree
                                                     : data_parallel_degree;
  }
  // Returns the same distance for a data-parallel group.
  int data_stride() const {
    return rank_order == RankOrder::kDataInnermost
               ? 1
               : tensor_parallel_degree * context_parallel_degree;
  }

  friend auto operator<=>(const Strategy&, const Strategy&) = default;
};

// Returns the notation of the field (docs/glossary.md): `2-4*-2f-c` is pipeline degree 2,
// tensor-parallel degree 4 on consecutive ranks (`*`), data-parallel degree 2 with parameters
// sharded (`f`), and activations recomputed (`-c`; `-s` if only those of attention;
// `-s:layernorm+mlp` if those of the modules named). `-cp2` is context-parallel degree 2 with
// rings, `-sp2` with all-to-alls, `-sp2-cp4` a ring of four pairs that exchange by all-to-alls,
// `-ag2` with keys and values gathered, `-ep2` expert-parallel degree 2; each is printed if above
// 1; `-etp1` expert-tensor-parallel degree 1, if it is not the tensor-parallel degree; `-hs4`
// states shared by groups of 4 ranks instead of all. The star is printed only if both degrees are
// above 1, behind the degree whose ranks are neighbours (`2-4-2f*` if those of data parallelism
// are). Sharding of optimizer states alone prints `z1`, and of gradients too `z2`, instead of `f`.
std::string StrategyNotation(int pipeline_parallel_degree, const Strategy& strategy);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_STRATEGY_H_
