// Sizes and groups that several kinds of a layer's traffic have in common. For the files of
// `LayerTraffic` (layer_traffic.h) alone: context_traffic.cc has the exchanges of attention,
// expert_traffic.cc those of experts, data_traffic.cc those of gradients, parameters and the shared
// table, module_recompute.cc those that recomputed modules repeat, and layer_traffic.cc tensor
// parallelism and what all of them use.

#ifndef PARPLAN_PLANNER_COST_TRAFFIC_PARTS_H_
#define PARPLAN_PLANNER_COST_TRAFFIC_PARTS_H_

#include "planner/cost/collective_time.h"
#include "planner/model/strategy.h"

namespace parplan {

// Bytes of numbers of experts and of tokens, as PyTorch's int64.
inline constexpr double kNumberBytes = 8.0;
// Bytes of gradients that are summed in 32 bits.
inline constexpr double kGradientBytes = 4.0;

// Returns the group of ranks with the same parameters: data- and context-parallel ones together.
inline GroupShape ReplicaGroup(const Strategy& strategy) {
  const bool tensor_inner = strategy.rank_order == RankOrder::kTensorInnermost;
  return {strategy.data_parallel_degree * strategy.context_parallel_degree,
          tensor_inner ? strategy.tensor_parallel_degree : 1};
}

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_TRAFFIC_PARTS_H_
