// The decision tree of Galvatron before and after its rules: every ordered path, and the rule that
// leaves it out. `planctl strategies` shows them.
//
// A path splits the devices level by level, outermost first: `PP 2, DP 2, TP 2` is two stages of
// two replicas of two tensor-parallel neighbours. Each level splits into equal groups, at least
// two, and no axis has two levels. The rules are those of docs/papers.md 1.1, and two of ours.
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

// The rules that leave paths out. A path is counted for the first one that it breaks, in this
// order.
enum class TreeRule {
  // Pipeline stages are split off first, between islands of devices.
  kPipelineFirst,
  // Data and sharded data parallelism are never both in one path.
  kOneKindOfDataParallelism,
  // No tensor-parallel group is wider than `TreeLimits` allows, by default in questions: a node.
  kTensorWidth,
  // Degrees are powers of two, as in the authors' code; divisors of any kind without it.
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
  // Absent if the path is a strategy of the tree.
  std::optional<TreeRule> pruned_by;

  // Returns the product of the levels of `axis`: its degree, or 1.
  int DegreeOf(TreeAxis axis) const;
};

// The limits of `TreeRule::kTensorWidth` and `kPowersOfTwo`.
struct TreeLimits {
  // Largest width of a tensor-parallel group; and whether degrees must be powers of two.
  int max_tensor_parallel_degree = std::numeric_limits<int>::max();
  bool only_powers_of_two = false;
};

// Returns all ordered paths of `device_count` devices: by axis (in the order of `kTreeAxes`) and
// degree of the first level, then of the second, and so on. The paths that no rule leaves out are,
// pipeline degree by pipeline degree, exactly `StageStrategies` without recomputation, within the
// limits. Linear in the number of paths, at most 24 times that of the ordered products of four
// factors. REQUIRES: device_count >= 1; aborts otherwise.
std::vector<TreePath> TreePaths(int device_count, const TreeLimits& limits = {});

// Returns the strategy within a stage of a path that no rule leaves out, without recomputation: of
// two axes in a stage, the inner one has consecutive ranks. REQUIRES: no `pruned_by`; aborts
// otherwise.
Strategy StrategyOfPath(const TreePath& path);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_SPACE_TREE_PATHS_H_
