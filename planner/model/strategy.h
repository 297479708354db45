// How one layer is spread over the ranks of its stage.

#ifndef PARPLAN_PLANNER_MODEL_STRATEGY_H_
#define PARPLAN_PLANNER_MODEL_STRATEGY_H_

#include <compare>
#include <string>

namespace parplan {

// ZeRO's levels, as in proto/parplan/v1/plan.proto. `kNone` and `kParameters` are DP and
// SDP of the papers.
enum class ShardingLevel { kNone = 1, kOptimizer = 2, kGradients = 3, kParameters = 4 };

// Which axis of the rank grid has neighbouring ranks. A degree-1 axis makes
// the order meaningless; the canonical value is then `kTensorInnermost`.
enum class RankOrder { kTensorInnermost = 1, kDataInnermost = 2 };

enum class RecomputeLevel {
  kNone = 1,
  // The whole layer from its input.
  kFull = 2,
  // Only attention scores, softmax, dropout and their product with the values
  // (Korthikanti et al., section 5). Nothing to save with fused attention.
  kSelective = 3,
};

// How ranks that share the tokens of a sample attend to each other's.
enum class ContextKind {
  // Keys and values go round (ring attention).
  kRing = 1,
  // All-to-alls exchange tokens for heads before attention and back behind it
  // (DeepSpeed-Ulysses): the degree also divides heads.
  kUlysses = 2,
};

// A strategy; the pipeline degree belongs to the plan, not to a layer.
// Compared field by field in the order below, which is also the order that
// breaks ties in every search.
struct Strategy {
  int tensor_parallel_degree = 1;
  int data_parallel_degree = 1;
  RankOrder rank_order = RankOrder::kTensorInnermost;
  ShardingLevel sharding_level = ShardingLevel::kNone;
  RecomputeLevel recompute_level = RecomputeLevel::kNone;
  // Megatron's sequence parallelism; only with tensor_parallel_degree > 1.
  bool sequence_parallel = false;
  // Ranks that share the tokens of each sample. Their ranks lie between those of tensor
  // and data parallelism.
  int context_parallel_degree = 1;
  // Data- and context-parallel ranks that share the experts of a layer: divides
  // their product. Only for layers with experts. `exact` alone searches it.
  int expert_parallel_degree = 1;
  // `kRing` where context_parallel_degree is 1.
  ContextKind context_kind = ContextKind::kRing;

  int rank_count() const {
    return tensor_parallel_degree * context_parallel_degree * data_parallel_degree;
  }
  // Distance in rank numbers between neighbours of a tensor-parallel group.
  int tensor_stride() const {
    return rank_order == RankOrder::kTensorInnermost
               ? 1
               : data_parallel_degree * context_parallel_degree;
  }
  // The same for a context-parallel group.
  int context_stride() const {
    return rank_order == RankOrder::kTensorInnermost ? tensor_parallel_degree
                                                     : data_parallel_degree;
  }
  // The same for a data-parallel group.
  int data_stride() const {
    return rank_order == RankOrder::kDataInnermost
               ? 1
               : tensor_parallel_degree * context_parallel_degree;
  }

  friend auto operator<=>(const Strategy&, const Strategy&) = default;
};

// Notation of the field (docs/glossary.md): `2-4*-2f-c` is pipeline degree 2,
// tensor-parallel degree 4 on consecutive ranks (`*`), data-parallel degree 2
// with parameters sharded (`f`), activations recomputed (`-c`; `-s` when only
// those of attention). `-cp2` or, with all-to-alls, `-sp2`, and `-ep2` name the two
// degrees above 1. The star is
// printed only when both degrees are above 1. Sharding of optimizer state and
// gradients alone prints `z1` and `z2` in the place of `f`.
std::string StrategyNotation(int pipeline_parallel_degree, const Strategy& strategy);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_STRATEGY_H_
