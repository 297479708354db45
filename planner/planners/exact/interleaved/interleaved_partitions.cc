#include "planner/planners/exact/interleaved/interleaved_partitions.h"

#include <algorithm>
#include <utility>

#include "planner/model/plan.h"

namespace parplan {
namespace {

// Partitions of one number of stages that are listed; of a number that has more, only even ones
// are. Each is bounded by itself, so more of them cost time in every candidate of a small model.
// Not measured for other values.
constexpr int64_t kMaxListed = 64;

// The transformer layers of a model.
struct TransformerLayers {
  int count = 0;
  // The first one, and one past the last one.
  int first = 0;
  int end = 0;
};

bool IsTransformerLayer(const ModelSpec& model, int layer) {
  return IsTransformer(model.layer(layer).kind);
}

TransformerLayers TransformerLayersOf(const ModelSpec& model) {
  TransformerLayers layers;
  for (int layer = 0; layer < model.layer_count(); ++layer) {
    if (!IsTransformerLayer(model, layer)) continue;
    if (layers.count++ == 0) layers.first = layer;
    layers.end = layer + 1;
  }
  return layers;
}

// Returns the distinct partitions into `stage_count` even stages, [virtual stage] layers, in which
// embedding and head count as a layer each or not at all; at most four.
std::vector<std::vector<int>> PartitionsOf(const StrategySpace& space,
                                           const TransformerLayers& layers, int stage_count) {
  const ModelSpec& model = space.problem().model();
  std::vector<std::vector<int>> partitions;
  if (layers.count == 0) return partitions;
  const bool ends_may_count = space.dimensions().has(SearchDimension::kUnevenStages);
  for (const bool embedding_counts : {false, true}) {
    for (const bool head_counts : {false, true}) {
      if (!ends_may_count && (embedding_counts || head_counts)) continue;
      const int units = layers.count + (embedding_counts ? 1 : 0) + (head_counts ? 1 : 0);
      if (units % stage_count != 0) continue;
      std::vector<int> partition;
      int next = 0;
      for (int stage = 0; stage < stage_count; ++stage) {
        const bool is_last = stage + 1 == stage_count;
        int left = units / stage_count;
        if (stage == 0 && embedding_counts) --left;
        if (is_last && head_counts) --left;
        int stop = stage == 0 ? layers.first : next;
        // Layers of other kinds in between belong to the stage of those before them.
        while (left > 0 && stop < layers.end) left -= IsTransformerLayer(model, stop++) ? 1 : 0;
        if (is_last) stop = model.layer_count();
        if (left < 0 || stop == next) break;
        partition.push_back(stop - next);
        next = stop;
      }
      const bool is_whole = static_cast<int>(partition.size()) == stage_count;
      const bool is_new =
          std::find(partitions.begin(), partitions.end(), partition) == partitions.end();
      if (is_whole && is_new) partitions.push_back(std::move(partition));
    }
  }
  return partitions;
}

// Returns the number of partitions of layers into stages of at least one, or `kMaxListed + 1` if
// there are more.
int64_t PartitionCount(int layer_count, int stage_count) {
  int64_t count = 1;
  const int chosen = std::min(stage_count - 1, layer_count - stage_count);
  for (int i = 1; i <= chosen; ++i) {
    // Exact: a product of i consecutive numbers is divided by i factorial.
    count = count * (layer_count - i) / i;
    if (count > kMaxListed) return kMaxListed + 1;
  }
  return count;
}

// Adds all partitions of `left` layers into `stage_count` stages behind those in `begun`.
void AddAllPartitions(int left, int stage_count, std::vector<int>& begun,
                      std::vector<std::vector<int>>& partitions) {
  if (stage_count == 1) {
    begun.push_back(left);
    partitions.push_back(begun);
    begun.pop_back();
    return;
  }
  for (int count = 1; left - count >= stage_count - 1; ++count) {
    begun.push_back(count);
    AddAllPartitions(left - count, stage_count - 1, begun, partitions);
    begun.pop_back();
  }
}

// Returns the largest number of virtual stages per device that plans of the space have, 0 if it has
// no interleaved plans of the degree.
int MostVirtualStages(const StrategySpace& space, int pipeline_parallel_degree) {
  const PlanningProblem& problem = space.problem();
  const std::optional<Schedule> wanted = problem.rules().schedule;
  if (pipeline_parallel_degree < 2 ||
      (wanted.has_value() && !TraitsOf(*wanted).has_virtual_stages) ||
      !space.dimensions().has(SearchDimension::kInterleaved)) {
    return 0;
  }
  return std::min(problem.model().layer_count() / pipeline_parallel_degree,
                  space.target().most_virtual_stages);
}

bool ListsAll(int layer_count, int stage_count) {
  return PartitionCount(layer_count, stage_count) <= kMaxListed;
}

}  // namespace

InterleavedPartitions InterleavedPartitionsOf(const StrategySpace& space,
                                              int pipeline_parallel_degree) {
  InterleavedPartitions partitions;
  const int most = MostVirtualStages(space, pipeline_parallel_degree);
  if (most < 2) return partitions;
  const ModelSpec& model = space.problem().model();
  const TransformerLayers layers = TransformerLayersOf(model);
  const int layer_count = model.layer_count();
  const bool is_uneven = space.dimensions().has(SearchDimension::kUnevenStages);
  for (int count = 2; count <= most; ++count) {
    const int stage_count = count * pipeline_parallel_degree;
    std::vector<std::vector<int>> listed;
    if (is_uneven && ListsAll(layer_count, stage_count)) {
      std::vector<int> begun;
      AddAllPartitions(layer_count, stage_count, begun, listed);
    } else {
      listed = PartitionsOf(space, layers, stage_count);
      if (is_uneven) partitions.unlisted.push_back(count);
    }
    for (std::vector<int>& each : listed) partitions.listed.push_back({count, std::move(each)});
  }
  return partitions;
}

std::vector<int> UnlistedVirtualStageCounts(const StrategySpace& space,
                                            int pipeline_parallel_degree) {
  std::vector<int> counts;
  if (!space.dimensions().has(SearchDimension::kUnevenStages)) return counts;
  const int layer_count = space.problem().model().layer_count();
  const int most = MostVirtualStages(space, pipeline_parallel_degree);
  for (int count = 2; count <= most; ++count) {
    if (!ListsAll(layer_count, count * pipeline_parallel_degree)) counts.push_back(count);
  }
  return counts;
}

bool SearchesUnevenApart(const StrategySpace& space) {
  return space.dimensions().has(SearchDimension::kPerLayer);
}

InterleavedPartitions SearchedPartitionsOf(const StrategySpace& space,
                                           int pipeline_parallel_degree) {
  InterleavedPartitions partitions = InterleavedPartitionsOf(space, pipeline_parallel_degree);
  if (SearchesUnevenApart(space)) partitions.unlisted.clear();
  return partitions;
}

bool FitsPassLimit(int64_t micro_batch_count, int stage_count) {
  return micro_batch_count <= kMaxForwardPassCount / stage_count;
}

}  // namespace parplan
