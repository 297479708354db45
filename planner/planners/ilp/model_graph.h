// The strategy graph of a whole model on one mesh.

#ifndef PARPLAN_PLANNER_PLANNERS_ILP_MODEL_GRAPH_H_
#define PARPLAN_PLANNER_PLANNERS_ILP_MODEL_GRAPH_H_

#include <cstdint>

#include "planner/cost/cost_model.h"
#include "planner/model/model_spec.h"
#include "planner/planners/ilp/device_mesh.h"
#include "planner/planners/ilp/operator_times.h"
#include "planner/planners/ilp/strategy_graph.h"

namespace parplan {

// Equal layers one after the other become
enum class Folding {
  // one instance each: nothing is tied;
  kNone,
  // three, of which the middle one stands for all but the first and the last: those may
  // differ, since their neighbours do;
  kMiddle,
  // one.
  kAll,
};

// One question about a mesh. The plan has one stage and `micro_batch_count` micro-batches
// of `micro_batch_size` samples.
struct MeshQuestion {
  DeviceMesh mesh;
  int64_t micro_batch_size = 1;
  int64_t micro_batch_count = 1;
  Folding folding = Folding::kMiddle;
};

// Operators of every layer with their options, and what happens between them. The parts
// of a layer add up, where it is on one device alone, to the time, states and
// activations that `costs` says of it. Groups are indices of layer definitions; names
// are `definition.operator`.
StrategyGraph GraphOfModel(const ModelSpec& model, const CostModel& costs,
                           const OperatorTimes& times, const MeshQuestion& question);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_ILP_MODEL_GRAPH_H_
