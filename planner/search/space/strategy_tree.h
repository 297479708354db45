// The decision tree: every way to spread a layer over the ranks of a stage.
//
// Galvatron, PVLDB 16(3), section 3.3 (papers.md 1.1), with its three rules: the
// pipeline comes first, between equal groups of devices; every split is into
// equal groups; data parallelism and sharded data parallelism are never mixed in
// one strategy. A stage of 2^k ranks has 4k-1 strategies (1 for one rank), all
// pipeline degrees of 2^n devices together 2n^2+n+1, and recomputation doubles
// both. Degrees need not be powers of two here: any divisor from 2 up is one.

#ifndef PARPLAN_PLANNER_SEARCH_SPACE_STRATEGY_TREE_H_
#define PARPLAN_PLANNER_SEARCH_SPACE_STRATEGY_TREE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/model/model_spec.h"
#include "planner/model/planning_problem.h"
#include "planner/model/strategy.h"

namespace parplan {

// The divisors of `number`, ascending. REQUIRES number >= 1.
std::vector<int64_t> Divisors(int64_t number);

// The strategies of a stage of `rank_count` ranks in ascending order, each with
// and without recomputation where `with_recompute`. None is sequence-parallel:
// that is a matter of the profile, not of the tree.
std::vector<Strategy> StageStrategies(int rank_count, bool with_recompute);

// Which part of the tree a planner uses.
struct SearchSpace {
  enum class Sharding { kAny, kNever, kAlways };

  // Only this degree, where set.
  std::optional<int> pipeline_parallel_degree;
  std::optional<int> tensor_parallel_degree;
  // `kAlways` shards wherever the data-parallel degree is above 1.
  Sharding sharding = Sharding::kAny;
  bool recompute = true;
  // Tensor-parallel groups only on consecutive ranks.
  bool only_tensor_innermost = false;
  // All transformer layers do as this one, where set; so do embedding and head, but for
  // recomputation, where the problem has no `end-strategies`.
  std::optional<Strategy> transformer_strategy;
  // Layers that hold a tied table hold it as under this one, where set.
  std::optional<Strategy> table_strategy;
};

// Whether a layer of `definition` can be run under `strategy` in micro-batches
// of `micro_batch_size` samples: the tensor-parallel degree divides attention
// and key/value heads (of an embedding or head: the hidden size; vocabularies
// are padded), the data-parallel degree divides the micro-batch, and an
// embedding or head does not recompute.
bool StrategyApplies(const LayerDefinition& definition, const Strategy& strategy,
                     int64_t micro_batch_size);

// The strategies of `space` for a layer of a definition in a stage of
// `rank_count` ranks that apply and that rules, dimensions and target of `problem`
// allow, in ascending order. Embeddings and heads are split only as some transformer layer
// of the model can be. `sequence_parallel` tells whether the layer was measured
// with sequence parallelism; every strategy with tensor parallelism then uses
// it. Empty when there are none.
std::vector<Strategy> AllowedStrategies(const PlanningProblem& problem, const SearchSpace& space,
                                        int definition_index, int rank_count,
                                        int64_t micro_batch_size, bool sequence_parallel);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_SPACE_STRATEGY_TREE_H_
