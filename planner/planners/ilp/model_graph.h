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

// The number of graph instances that stand for a run of equal layers: consecutive layers of one
// definition. All layers for which one instance stands take the same options.
enum class Folding {
  // One for each layer, so each chooses by itself.
  kNone,
  // Three: the first, the last, and one that stands for all others; one or two for runs of so few
  // layers. The ends may differ, because their neighbours do.
  kMiddle,
  // One for all.
  kAll,
};

// The mesh, and the batch that it trains. The plan has one stage and `micro_batch_count`
// micro-batches of `micro_batch_size` samples, which all devices of the mesh share; both are at
// least 1, which is not checked.
struct MeshQuestion {
  DeviceMesh mesh;
  int64_t micro_batch_size = 1;
  int64_t micro_batch_count = 1;
  Folding folding = Folding::kMiddle;
};

// Returns the graph of the operators of every layer with their options, and the costs between them,
// in the units of strategy_graph.h: bytes of one device, and seconds of one step. On a single
// device the operators of a layer add up to what `costs` gives for the layer: to its time, times
// `micro_batch_count`, and to its states, and in transformer layers to its activations too. The
// activations of embedding and head are those of their operators.
//
// `GraphNode::group` is the index of the definition of the node's layer, and `GraphNode::name` the
// id of that definition, a dot and the name of the operator. The graph keeps no reference to the
// arguments. REQUIRES: every layer has the usual parts (`HasUsualParts`), else this aborts; `times`
// was made with the mesh of the question, which is not checked.
StrategyGraph GraphOfModel(const ModelSpec& model, const CostModel& costs,
                           const OperatorTimes& times, const MeshQuestion& question);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_ILP_MODEL_GRAPH_H_
