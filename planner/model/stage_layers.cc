#include "planner/model/stage_layers.h"

#include <vector>

namespace parplan {

void AppendLayer(const ModelSpec& model, int layer, const Strategy& strategy, StagePlan* stage) {
  const std::vector<int>& definitions = model.definition_of_layer();
  if (!stage->layer_runs.empty()) {
    StageLayerRun& run = stage->layer_runs.back();
    if (run.strategy == strategy && definitions[run.first_layer_index] == definitions[layer]) {
      ++run.layer_count;
      return;
    }
  }
  stage->layer_runs.push_back({layer, 1, strategy});
}

}  // namespace parplan
