// Memory of a device besides tensors, and what it means for a budget.

#ifndef PARPLAN_PLANNER_COST_MEMORY_OVERHEADS_H_
#define PARPLAN_PLANNER_COST_MEMORY_OVERHEADS_H_

#include "base/units.h"

namespace parplan {

// Plain data: what a process holds, and how sure one is of the sum.
struct MemoryOverheads {
  Bytes context;
  Bytes communicator;  // each
  Bytes workspace;
  // What the allocator holds and nobody uses, as a share of the tensors' peak.
  double fragmentation = 0.0;
  // Measured memory exceeds the predicted one times this with at most the accepted
  // probability. At least 1.
  double upper_factor = 1.0;
  // The other end of the range. At most 1.
  double lower_factor = 1.0;

  // Most communicators a rank is part of in a plan without context and expert
  // parallelism (`CommunicatorCount` of rank_memory.h).
  static int MostCommunicators(int pipeline_parallel_degree, int ranks_per_stage);

  // Of one device whose tensors peak at `tensors`. Monotone in it. With
  // `communicator_count` communicators where that is more than `MostCommunicators`.
  Bytes DeviceMemory(Bytes tensors, int pipeline_parallel_degree, int ranks_per_stage,
                     int communicator_count = 0) const;
  // Not exceeded at the accepted risk by a device predicted to use `memory`.
  Bytes Upper(Bytes memory) const { return Bytes::Ceil(memory.as_double() * upper_factor); }

  // The most tensors whose upper bound fits into `usable` beside so many communicators
  // (see `DeviceMemory`); negative when not even the overheads do. O(1).
  Bytes TensorBudget(Bytes usable, int pipeline_parallel_degree, int ranks_per_stage,
                     int communicator_count = 0) const;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_MEMORY_OVERHEADS_H_
