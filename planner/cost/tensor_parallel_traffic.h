// Counts the collectives of one layer over its tensor-parallel group. Times are in layer_traffic.h.
// `LayerTraffic` counts by it.

#ifndef PARPLAN_PLANNER_COST_TENSOR_PARALLEL_TRAFFIC_H_
#define PARPLAN_PLANNER_COST_TENSOR_PARALLEL_TRAFFIC_H_

#include "planner/model/layer_definition.h"
#include "planner/model/runtime_traits.h"

namespace parplan {

// Numbers of collectives in one pass, each over the activations of the micro-batch. With sequence
// parallelism reduce-scatters and all-gathers replace all-reduces.
struct PassTraffic {
  int all_reduces = 0;
  int gathers = 0;
  // Part of `gathers` that no recipe of 8 or 4 bits narrows: the tokens of experts.
  int wide_gathers = 0;
  int scatters = 0;
};
// The collectives of one layer.
struct TensorParallelTraffic {
  // Exchanges of the residual stream.
  PassTraffic forward;
  PassTraffic backward;
  // Exchanges of vectors inside the layer, `inner_width` elements wide.
  PassTraffic inner_forward;
  PassTraffic inner_backward;
  double inner_width = 0.0;
  // Part of `backward` and `inner_backward` that gradients of weights can hide.
  PassTraffic hidden;
  PassTraffic inner_hidden;
};

// Returns the traffic of Megatron-LM's layers with a tensor-parallel degree above 1, the same for
// each. A table split by rows sums once. A head split by classes sums the gradient of its input
// once for each predicted token; with sequence parallelism it gathers its input in both passes, or
// once if it computes its logits in the backward pass, keeps what it gathered, or is frozen. Frozen
// parts without adapters gather no input for gradients of weights. With `experts_apart`, experts
// are split over other ranks, so that of their part only a shared expert exchanges anything here.
// None for an opaque layer, which lists its own.
TensorParallelTraffic TrafficOf(const LayerDefinition& layer, bool sequence_parallel,
                                const RuntimeTraits& runtime, bool experts_apart = false);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_TENSOR_PARALLEL_TRAFFIC_H_
