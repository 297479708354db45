// The strategy graph of a whole model on one mesh. Used by `MeshSearch` and `DrawGraph`.

#ifndef PARPLAN_PLANNER_PLANNERS_ILP_MODEL_GRAPH_H_
#define PARPLAN_PLANNER_PLANNERS_ILP_MODEL_GRAPH_H_

#include <cstdint>

#include "planner/cost/cost_model.h"
#include "planner/model/model_spec.h"
#include "planner/planners/ilp/device_mesh.h"
#include "planner/planners/ilp/operator_times.h"
#include "planner/planners/ilp/strategy_graph.h"

namespace parplan {

// The number of graph instances that stand for a run of equal layers.
enum class Folding {
  // One per layer: nothing is tied.
  kNone,
  // Three: the first, the last, and one that stands for all others; as many as layers if there are
  // fewer. The ends may differ, because their neighbours do.
  kMiddle,
  // One for all.
  kAll,
};

// A question about a mesh. The plan has one stage and `micro_batch_count` micro-batches of
// `micro_batch_size` samples, over all devices of the mesh.
struct MeshQuestion {
  DeviceMesh mesh;
  int64_t micro_batch_size = 1;
  int64_t micro_batch_count = 1;
  Folding folding = Folding::kMiddle;
};

// Returns the graph of the operators of every layer with their options, and the costs between them.
// On a single device, the parts of a layer add up to the time, states and, in transformer layers,
// activations that `costs` gives. Groups are indices of layer definitions; names are
// `definition.operator`. REQUIRES: every layer has the usual parts (`HasUsualParts`), else this
// aborts; `times` was made with the mesh of the question, which is not checked.
StrategyGraph GraphOfModel(const ModelSpec& model, const CostModel& costs,
                           const OperatorTimes& times, const MeshQuestion& question);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_ILP_MODEL_GRAPH_H_
