#include "planner/search/space/tree_paths.h"

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "planner/search/space/strategy_tree.h"

namespace parplan {
namespace {

bool Has(const TreePath& path, TreeAxis axis) { return path.DegreeOf(axis) > 1; }

bool BreaksRule(const TreePath& path, TreeRule rule, const TreeLimits& limits) {
  switch (rule) {
    case TreeRule::kPipelineFirst:
      return Has(path, TreeAxis::kPipeline) && path.levels.front().axis != TreeAxis::kPipeline;
    case TreeRule::kOneKindOfDataParallelism:
      return Has(path, TreeAxis::kData) && Has(path, TreeAxis::kShardedData);
    case TreeRule::kTensorWidth:
      return path.DegreeOf(TreeAxis::kTensor) > limits.max_tensor_parallel_degree;
    case TreeRule::kPowersOfTwo:
      return limits.only_powers_of_two &&
             std::any_of(path.levels.begin(), path.levels.end(), [](const TreeLevel& level) {
               return (level.degree & (level.degree - 1)) != 0;
             });
  }
  return false;
}

// Adds every path that begins with `levels` and splits `rank_count` more ranks.
void AddPaths(int rank_count, std::vector<TreeLevel>& levels, const TreeLimits& limits,
              std::vector<TreePath>& paths) {
  if (rank_count == 1) {
    TreePath path{.levels = levels, .pruned_by = std::nullopt};
    for (const TreeRule rule : kTreeRules) {
      if (!BreaksRule(path, rule, limits)) continue;
      path.pruned_by = rule;
      break;
    }
    paths.push_back(std::move(path));
    return;
  }
  for (const TreeAxis axis : kTreeAxes) {
    const bool used = std::any_of(levels.begin(), levels.end(),
                                  [axis](const TreeLevel& level) { return level.axis == axis; });
    if (used) continue;
    for (const int64_t degree : Divisors(rank_count)) {
      if (degree == 1) continue;
      levels.push_back({axis, static_cast<int>(degree)});
      AddPaths(rank_count / static_cast<int>(degree), levels, limits, paths);
      levels.pop_back();
    }
  }
}

}  // namespace

int TreePath::DegreeOf(TreeAxis axis) const {
  for (const TreeLevel& level : levels) {
    if (level.axis == axis) return level.degree;
  }
  return 1;
}

std::vector<TreePath> TreePaths(int device_count, const TreeLimits& limits) {
  PARPLAN_CHECK(device_count >= 1);
  std::vector<TreePath> paths;
  std::vector<TreeLevel> levels;
  AddPaths(device_count, levels, limits, paths);
  return paths;
}

Strategy StrategyOfPath(const TreePath& path) {
  PARPLAN_CHECK(!path.pruned_by);
  Strategy strategy;
  strategy.tensor_parallel_degree = path.DegreeOf(TreeAxis::kTensor);
  strategy.data_parallel_degree =
      path.DegreeOf(TreeAxis::kData) * path.DegreeOf(TreeAxis::kShardedData);
  if (Has(path, TreeAxis::kShardedData)) strategy.sharding_level = ShardingLevel::kParameters;
  const bool two_axes = strategy.tensor_parallel_degree > 1 && strategy.data_parallel_degree > 1;
  if (two_axes && path.levels.back().axis != TreeAxis::kTensor) {
    strategy.rank_order = RankOrder::kDataInnermost;
  }
  return strategy;
}

}  // namespace parplan
