#include "planner/search/space/tree_paths.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/search/space/strategy_tree.h"

namespace parplan {
namespace {

// Returns how many paths each rule leaves out; those that are kept have no rule.
std::map<std::optional<TreeRule>, int> CountByRule(int device_count, const TreeLimits& limits) {
  std::map<std::optional<TreeRule>, int> counts;
  for (const TreePath& path : TreePaths(device_count, limits)) ++counts[path.pruned_by];
  return counts;
}

TEST(TreePaths, KeepsExactlyTheStrategiesOfEveryStage) {
  for (const int device_count : {1, 2, 3, 6, 8, 12, 16, 36, 64, 96}) {
    SCOPED_TRACE(device_count);
    std::map<int, std::vector<Strategy>> kept;
    for (const TreePath& path : TreePaths(device_count)) {
      if (!path.pruned_by) {
        kept[path.DegreeOf(TreeAxis::kPipeline)].push_back(StrategyOfPath(path));
      }
    }
    ASSERT_EQ(kept.size(), Divisors(device_count).size());
    for (auto& [degree, strategies] : kept) {
      std::sort(strategies.begin(), strategies.end());
      EXPECT_EQ(strategies, StageStrategies(device_count / degree, false));
    }
  }
}

// On 8 devices: 4 paths of one level, 12 pairs of axes by 2 products of two factors, 24 triples by
// one product. Of the 12 pairs 3, of the 24 triples 12 have a pipeline that is not first. The rest,
// 34, is in the reading notes (docs/papers.md 1.1), and 22 in notes and code.
TEST(TreePaths, CountsWhatEachRuleLeavesOut) {
  const auto counts = CountByRule(8, {});
  EXPECT_EQ(TreePaths(8).size(), 4u + 12u * 2u + 24u);
  EXPECT_EQ(counts.at(TreeRule::kPipelineFirst), 3 * 2 + 12);
  EXPECT_EQ(counts.at(TreeRule::kOneKindOfDataParallelism), 34 - 22);
  EXPECT_EQ(counts.at(std::nullopt), 22);
  EXPECT_EQ(counts.size(), 3u);
}

// 12 devices, tensor parallelism of at most 4. Widths of 6 and 12 go.
TEST(TreePaths, LimitsTensorParallelismAndDegrees) {
  const int all = CountByRule(12, {}).at(std::nullopt);
  for (const TreePath& path : TreePaths(12, {.max_tensor_parallel_degree = 4})) {
    if (path.pruned_by) continue;
    EXPECT_LE(path.DegreeOf(TreeAxis::kTensor), 4);
  }
  // 1-6-2 and 2-6-1 and their like: 1-6*-2, 1-6*-2f, 1-6-2*, 1-6-2f*, 1-12-1, 2-6-1.
  const auto narrow = CountByRule(12, {.max_tensor_parallel_degree = 4});
  EXPECT_EQ(narrow.at(TreeRule::kTensorWidth), 6);
  EXPECT_EQ(narrow.at(std::nullopt), all - 6);
  // 12 is no product of powers of two: nothing is left.
  const auto powers = CountByRule(12, {.only_powers_of_two = true});
  EXPECT_EQ(powers.count(std::nullopt), 0u);
  EXPECT_EQ(powers.at(TreeRule::kPowersOfTwo), all);
  EXPECT_EQ(CountByRule(16, {.only_powers_of_two = true}), CountByRule(16, {}));
}

TEST(TreePaths, OfOneDeviceIsThePathWithoutLevels) {
  const std::vector<TreePath> paths = TreePaths(1);
  ASSERT_EQ(paths.size(), 1u);
  EXPECT_TRUE(paths[0].levels.empty());
  EXPECT_EQ(StrategyOfPath(paths[0]), Strategy());
}

}  // namespace
}  // namespace parplan
