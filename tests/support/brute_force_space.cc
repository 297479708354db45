#include "tests/support/brute_force_space.h"

#include <algorithm>
#include <utility>

#include "tests/support/brute_force_menus.h"

namespace parplan {
namespace {

using enum SearchDimension;

int TransformerCount(const PlanningProblem& problem) {
  int count = 0;
  for (int layer = 0; layer < problem.model().layer_count(); ++layer) {
    if (IsTransformer(problem.model().layer(layer).kind)) ++count;
  }
  return count;
}

// Stages of equally many transformer layers, if that can be: what is before them is in the first
// stage, what is behind in the last.
std::vector<int> EvenPartition(const PlanningProblem& problem, int stage_count) {
  const ModelSpec& model = problem.model();
  const int layer_count = model.layer_count();
  const int units = TransformerCount(problem);
  if (units % stage_count != 0) return {};
  int first = 0;
  while (first < layer_count && !IsTransformer(model.layer(first).kind)) ++first;
  int end = layer_count;
  while (end > first && !IsTransformer(model.layer(end - 1).kind)) --end;
  std::vector<int> partition;
  int next = 0;
  for (int stage = 0; stage < stage_count; ++stage) {
    int left = units / stage_count;
    int stop = stage == 0 ? first : next;
    while (left > 0 && stop < end) {
      if (IsTransformer(model.layer(stop).kind)) --left;
      ++stop;
    }
    if (stage + 1 == stage_count) stop = layer_count;
    if (stop == next) return {};
    partition.push_back(stop - next);
    next = stop;
  }
  return partition;
}

// Every way to cut `left` layers into `stage_count` stages behind those of `begun`.
void CutInAllWays(int left, int stage_count, std::vector<int>& begun,
                  std::vector<std::vector<int>>& partitions) {
  if (stage_count == 0) {
    if (left == 0) partitions.push_back(begun);
    return;
  }
  for (int count = 1; count <= left; ++count) {
    begun.push_back(count);
    CutInAllWays(left - count, stage_count - 1, begun, partitions);
    begun.pop_back();
  }
}

}  // namespace

std::vector<PlanShape> ShapesOf(const PlanningProblem& problem) {
  const PlanningRules& rules = problem.rules();
  const DimensionSet dimensions = problem.dimensions();
  const auto allows = [&rules](Schedule schedule) {
    return rules.schedule.value_or(schedule) == schedule;
  };
  std::vector<PlanShape> shapes;
  for (int64_t batch : problem.GlobalBatchSizes()) {
    for (int depth = 1; depth <= problem.max_pipeline_parallel_degree(); ++depth) {
      if (problem.device_count() % depth != 0) continue;
      if (depth > 1 && !dimensions.has(kPipeline)) continue;
      const bool is_torchtitan = rules.target == Target::kTorchtitan;
      const ModelSpec& model = problem.model();
      if (depth > 1 && is_torchtitan && model.layer(model.layer_count() - 1).tied_embedding) {
        continue;
      }
      if (LimitsOf(rules.target).only_powers_of_two && !IsPowerOfTwo(depth)) continue;
      for (int64_t count = 1; count <= batch; ++count) {
        if (batch % count != 0) continue;
        if (rules.micro_batch_count != 0 && count != rules.micro_batch_count) continue;
        const auto add = [&](Schedule schedule, int virtual_stages, int64_t group = 0) {
          if (count * depth * virtual_stages > kMaxForwardPassCount) return;
          shapes.push_back({batch, count, depth, schedule, virtual_stages, group});
        };
        if (depth == 1) {
          // One stage is no pipeline: 1F1B and GPipe are the same.
          if (rules.schedule == Schedule::kInterleaved) continue;
          if (rules.schedule == Schedule::kZeroBubble) continue;
          add(rules.schedule.value_or(Schedule::kOneForwardOneBackward), 1);
          continue;
        }
        if (allows(Schedule::kOneForwardOneBackward)) add(Schedule::kOneForwardOneBackward, 1);
        if (allows(Schedule::kGpipe) && dimensions.has(kGpipe)) add(Schedule::kGpipe, 1);
        if (allows(Schedule::kZeroBubble) && dimensions.has(kZeroBubble) &&
            rules.runtime.splits_backward && !rules.runtime.blocking_pipeline_messages) {
          add(Schedule::kZeroBubble, 1);
        }
        if (!allows(Schedule::kInterleaved) || !dimensions.has(kInterleaved)) continue;
        for (int stages = 2; stages * depth <= problem.model().layer_count(); ++stages) {
          if (is_torchtitan && stages > 3) break;
          if (count % depth == 0) add(Schedule::kInterleaved, stages);
          for (int64_t group = depth + 1; group <= count && dimensions.has(kGroupSize); ++group) {
            // The last group has nobody missing, or one for each device.
            const int64_t last = count - count / group * group;
            if (last == 0 || last >= depth) add(Schedule::kInterleaved, stages, group);
          }
        }
      }
    }
  }
  return shapes;
}

std::vector<std::vector<int>> PartitionsOf(const PlanningProblem& problem, const PlanShape& shape) {
  const bool uneven = problem.dimensions().has(kUnevenStages);
  std::vector<std::vector<int>> partitions;
  if (uneven) {
    std::vector<int> begun;
    CutInAllWays(problem.model().layer_count(), shape.stage_count(), begun, partitions);
    // Galvatron's stages are told by their numbers of transformer layers, none of which is 0.
    std::erase_if(partitions, [&](const std::vector<int>& partition) {
      int layer = 0;
      for (const int count : partition) {
        int transformers = 0;
        for (const int end = layer + count; layer < end; ++layer) {
          transformers += IsTransformer(problem.model().layer(layer).kind) ? 1 : 0;
        }
        if (transformers == 0) return problem.rules().target == Target::kGalvatron;
      }
      return false;
    });
  } else {
    std::vector<int> partition = EvenPartition(problem, shape.stage_count());
    if (!partition.empty()) partitions.push_back(std::move(partition));
  }
  return partitions;
}

Plan MakePlan(const PlanningProblem& problem, const PlanShape& shape,
              const std::vector<int>& partition, const std::vector<Strategy>& strategy_of_layer) {
  Plan plan;
  plan.device_count = problem.device_count();
  plan.global_batch_size = shape.global_batch_size;
  plan.micro_batch_count = shape.micro_batch_count;
  plan.schedule = shape.schedule;
  plan.virtual_stage_count = shape.virtual_stage_count;
  plan.micro_batch_group_size = shape.micro_batch_group_size;
  const std::vector<int>& definitions = problem.model().definition_of_layer();
  const int ranks = problem.device_count() / shape.pipeline_parallel_degree;
  int layer = 0;
  for (int index = 0; index < static_cast<int>(partition.size()); ++index) {
    StagePlan& stage = plan.stages.emplace_back();
    stage.first_rank = index % shape.pipeline_parallel_degree * ranks;
    stage.rank_count = ranks;
    for (int end = layer + partition[index]; layer < end; ++layer) {
      const Strategy& strategy = strategy_of_layer[layer];
      if (!stage.layer_runs.empty() && stage.layer_runs.back().strategy == strategy &&
          definitions[layer - 1] == definitions[layer]) {
        ++stage.layer_runs.back().layer_count;
      } else {
        stage.layer_runs.push_back({layer, 1, strategy});
      }
    }
  }
  return plan;
}

double PlanCount(const PlanningProblem& problem, const CostModel& costs) {
  double count = 0.0;
  for (const PlanShape& shape : ShapesOf(problem)) {
    double of_menus = 0.0;
    for (const LayerMenus& menus : MenusOf(problem, costs, shape)) {
      double product = 1.0;
      for (const std::vector<Strategy>& menu : menus) product *= static_cast<double>(menu.size());
      of_menus += product;
    }
    count += of_menus * static_cast<double>(PartitionsOf(problem, shape).size());
  }
  return count;
}

}  // namespace parplan
