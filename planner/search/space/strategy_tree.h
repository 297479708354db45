// The decision tree of Galvatron: every way to spread a layer over the ranks of a stage. The
// baselines of baseline_search.h and the study of the 2022 code list strategies by it.
//
// The tree keeps the three rules of docs/papers.md 1.1 (reading notes and authors' code): the
// pipeline comes first, between equal groups of devices; every split is into equal groups; data
// parallelism and sharded data parallelism are never mixed in one strategy. A stage of 2^k ranks
// has 4k-1 strategies (1 for one rank), all pipeline degrees of 2^n devices together have 2n^2+n+1,
// and recomputation doubles both numbers. Degrees need not be powers of two here: any divisor from
// 2 up is allowed.
//
// Words (docs/glossary.md): a definition is the sizes of a layer, the same for equal layers.

#ifndef PARPLAN_PLANNER_SEARCH_SPACE_STRATEGY_TREE_H_
#define PARPLAN_PLANNER_SEARCH_SPACE_STRATEGY_TREE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/model/model_spec.h"
#include "planner/model/planning_problem.h"
#include "planner/model/strategy.h"

namespace parplan {

// Returns the divisors of `number`, ascending. REQUIRES, unchecked: number >= 1.
std::vector<int64_t> Divisors(int64_t number);

// Returns the strategies of a stage of `rank_count` ranks in ascending order, each with and without
// recomputation of whole layers if `with_recompute`, else without. No strategy has sequence
// parallelism, because the profile decides on it and not the tree; none has context or expert
// parallelism; each shards the parameters over all data-parallel ranks or shards nothing.
// REQUIRES, unchecked: rank_count >= 1.
std::vector<Strategy> StageStrategies(int rank_count, bool with_recompute);

// The part of the tree a planner uses.
struct SearchSpace {
  // Whether strategies shard parameters over data-parallel ranks: both kinds are allowed, only
  // those that shard nothing, or only those that shard whenever the data-parallel degree is above
  // 1.
  enum class Sharding { kAny, kNever, kAlways };

  // The only pipeline and the only tensor-parallel degree allowed, each if it is set.
  // `AllowedStrategies` does not read the pipeline degree, because its callers choose that.
  std::optional<int> pipeline_parallel_degree;
  std::optional<int> tensor_parallel_degree;
  Sharding sharding = Sharding::kAny;
  // Whether strategies may recompute whole layers.
  bool recompute = true;
  // Whether tensor-parallel groups must have consecutive ranks.
  bool only_tensor_innermost = false;
  // The strategy of all transformer layers, if set; its member `sequence_parallel` is ignored.
  // Without the dimension `end-strategies`, embedding and head have the same strategy, but without
  // recomputation.
  std::optional<Strategy> transformer_strategy;
  // If set, all layers that hold the tied table shard that table as this strategy does.
  std::optional<Strategy> table_strategy;
  // The strategy of embedding and head, if set, its sequence parallelism included.
  std::optional<Strategy> end_strategy;
  // If set: true if all layers that tensor parallelism splits must have sequence parallelism, false
  // if none may have it.
  std::optional<bool> sequence_parallel;
};

// Returns whether a layer of `definition` can run under `strategy` in micro-batches of
// `micro_batch_size` samples: the tensor-parallel degree can split the layer
// (`SplitsOverTensorRanks`; for an embedding or head it divides the hidden size, and vocabularies
// are padded), the data-parallel degree divides the micro-batch, and an embedding or head does not
// recompute.
bool StrategyApplies(const LayerDefinition& definition, const Strategy& strategy,
                     int64_t micro_batch_size);

// Returns the strategies of `space`, in ascending order, for a layer of a definition in a stage of
// `rank_count` ranks that apply and that rules, dimensions and target of `problem` allow; empty if
// there are none. Embeddings and heads are split only in ways some transformer layer of the model
// can be. `sequence_parallel` says whether the layer was measured with sequence parallelism; then
// every strategy with tensor parallelism uses it.
std::vector<Strategy> AllowedStrategies(const PlanningProblem& problem, const SearchSpace& space,
                                        int definition_index, int rank_count,
                                        int64_t micro_batch_size, bool sequence_parallel);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_SPACE_STRATEGY_TREE_H_
