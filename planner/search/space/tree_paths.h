// Galvatron's decision tree with and without pruning: every ordered path, each with the rule that
// prunes it. `planctl strategies` shows them.
//
// A path splits the devices level by level, outermost first: `PP 2, DP 2, TP 2` is two stages of
// two replicas of two tensor-parallel neighbours. Each level splits into equal groups, at least
// two, and no axis has two levels. The first two rules of `TreeRule` are Galvatron's
// (docs/papers.md 1.1), the last two are optional limits.
//
//   for (const TreePath& path : TreePaths(8)) {
//     if (!path.pruned_by) ++kept;   // 22 of 52
//   }

#ifndef PARPLAN_PLANNER_SEARCH_SPACE_TREE_PATHS_H_
#define PARPLAN_PLANNER_SEARCH_SPACE_TREE_PATHS_H_

#include <limits>
#include <optional>
#include <vector>

#include "planner/model/strategy.h"

namespace parplan {

// The axis along which one level of the tree splits its devices.
enum class TreeAxis { kPipeline, kData, kShardedData, kTensor };
inline constexpr TreeAxis kTreeAxes[] = {TreeAxis::kPipeline, TreeAxis::kData,
                                         TreeAxis::kShardedData, TreeAxis::kTensor};

// The rules by which paths are pruned. `TreePath::pruned_by` is the first rule of this order that
// the path breaks.
enum class TreeRule {
  // A pipeline level is the outermost level.
  kPipelineFirst,
  // Data and sharded data parallelism are never both in one path.
  kOneKindOfDataParallelism,
  // No tensor-parallel degree is above `TreeLimits::max_tensor_parallel_degree`.
  kTensorWidth,
  // Every degree is a power of two, as in the authors' code. Only if
  // `TreeLimits::only_powers_of_two`; otherwise every divisor is allowed.
  kPowersOfTwo,
};
inline constexpr TreeRule kTreeRules[] = {TreeRule::kPipelineFirst,
                                          TreeRule::kOneKindOfDataParallelism,
                                          TreeRule::kTensorWidth, TreeRule::kPowersOfTwo};

// One level of a path.
struct TreeLevel {
  TreeAxis axis = TreeAxis::kPipeline;
  // Number of groups, at least 2.
  int degree = 2;

  friend bool operator==(const TreeLevel&, const TreeLevel&) = default;
};

// One path from all devices to single devices. Its degrees have the number of devices as product; a
// single device has the path without levels.
struct TreePath {
  // Outermost first.
  std::vector<TreeLevel> levels;
  // The rule that prunes the path; absent if the path is a strategy of the tree.
  std::optional<TreeRule> pruned_by;

  // Returns the degree of the level of `axis`, or 1 if the path has no such level.
  int DegreeOf(TreeAxis axis) const;
};

// The limits of `TreeRule::kTensorWidth` and `kPowersOfTwo`. By default neither prunes a path.
struct TreeLimits {
  // Largest tensor-parallel degree. Planning questions have one too, whose default is the number of
  // devices of a node (`PlanningRules::max_tensor_parallel_degree`).
  int max_tensor_parallel_degree = std::numeric_limits<int>::max();
  // Whether every degree must be a power of two.
  bool only_powers_of_two = false;
};

// Returns all ordered paths of `device_count` devices, pruned ones included. They are sorted by
// axis (in the order of `kTreeAxes`) and degree of the first level, then of the second, and so on.
// Without limits, the paths of pipeline degree P that are not pruned are the same set of strategies
// as `StageStrategies(device_count / P, false)` (strategy_tree.h), in another order. Takes time
// linear in the number of paths, which is at most 24 times the number of ways to write
// `device_count` as an ordered product of four factors. REQUIRES: device_count >= 1; aborts
// otherwise.
std::vector<TreePath> TreePaths(int device_count, const TreeLimits& limits = {});

// Returns the strategy of one stage of a path, without recomputation. If a stage is split along two
// axes, the groups of the inner axis have consecutive ranks. The strategy of a path without levels
// in a stage has one rank. REQUIRES: `path` has no `pruned_by`, and aborts otherwise; `TreePaths`
// returned it, unchecked.
Strategy StrategyOfPath(const TreePath& path);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_SPACE_TREE_PATHS_H_
