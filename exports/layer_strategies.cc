#include "exports/layer_strategies.h"

#include <cstddef>
#include <utility>

#include "base/check.h"
#include "planner/model/stage_layers.h"

namespace parplan {

LayerStrategies LayerStrategiesOf(const Plan& plan) {
  LayerStrategies layers;
  for (const StagePlan& stage : plan.stages) {
    layers.stage_layer_counts.push_back(stage.layer_count());
    for (const StageLayerRun& run : stage.layer_runs) {
      for (int i = 0; i < run.layer_count; ++i) layers.strategies.push_back(run.strategy);
    }
  }
  return layers;
}

std::vector<StagePlan> StagesOf(const LayerStrategies& layers, const ModelSpec& model,
                                int pipeline_parallel_degree, int rank_count) {
  std::vector<StagePlan> stages;
  int layer = 0;
  for (size_t i = 0; i < layers.stage_layer_counts.size(); ++i) {
    StagePlan stage;
    stage.first_rank = static_cast<int>(i) % pipeline_parallel_degree * rank_count;
    stage.rank_count = rank_count;
    for (int k = 0; k < layers.stage_layer_counts[i]; ++k, ++layer) {
      PARPLAN_CHECK(layer < model.layer_count());
      AppendLayer(model, layer, layers.strategies[layer], &stage);
    }
    stages.push_back(std::move(stage));
  }
  return stages;
}

}  // namespace parplan
