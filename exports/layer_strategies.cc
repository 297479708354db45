#include "exports/layer_strategies.h"

#include <cstddef>
#include <utility>

#include "absl/strings/string_view.h"
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

Plan WithJoinedRuns(Plan plan, const ModelSpec& model) {
  const auto definition = [&model](int layer) -> absl::string_view {
    const bool is_in_model = layer >= 0 && layer < model.layer_count();
    return is_in_model ? model.layer(layer).layer_definition_id : absl::string_view();
  };
  for (StagePlan& stage : plan.stages) {
    std::vector<StageLayerRun> joined;
    for (const StageLayerRun& run : stage.layer_runs) {
      const bool continues =
          !joined.empty() && joined.back().strategy == run.strategy &&
          joined.back().layer_count >= 1 && run.layer_count >= 1 &&
          run.first_layer_index - joined.back().first_layer_index == joined.back().layer_count &&
          definition(joined.back().first_layer_index) == definition(run.first_layer_index);
      if (continues) {
        joined.back().layer_count += run.layer_count;
      } else {
        joined.push_back(run);
      }
    }
    stage.layer_runs = std::move(joined);
  }
  return plan;
}

}  // namespace parplan
