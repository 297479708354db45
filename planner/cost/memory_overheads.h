// Memory of a device apart from tensors, and the budget it leaves for them. `GroupCosts::overheads`
// has that of a node group; searches take their budgets from it.

#ifndef PARPLAN_PLANNER_COST_MEMORY_OVERHEADS_H_
#define PARPLAN_PLANNER_COST_MEMORY_OVERHEADS_H_

#include "base/units.h"

namespace parplan {

// The memory that a process holds apart from tensors, and the factors of the range of its total.
// Plain data.
struct MemoryOverheads {
  // Memory of the driver's context and libraries; `workspace` is that of the matrix library.
  Bytes context;
  Bytes communicator;  // of one communicator
  Bytes workspace;
  // Memory that the allocator holds unused, as a share of the tensors' peak.
  double fragmentation = 0.0;
  // Measured memory exceeds the prediction times this factor with at most the accepted probability.
  // At least 1.
  double upper_factor = 1.0;
  // The other end of the range. At most 1.
  double lower_factor = 1.0;

  // Returns the largest number of communicators of a rank in a plan without context and expert
  // parallelism (see `CommunicatorCount` of rank_memory.h).
  static int MaxCommunicatorCount(int pipeline_parallel_degree, int ranks_per_stage);

  // Returns the memory of a device whose tensors peak at `tensors`; monotone in it. The device has
  // `MaxCommunicatorCount` communicators, or `communicator_count` if that is more.
  Bytes DeviceMemory(Bytes tensors, int pipeline_parallel_degree, int ranks_per_stage,
                     int communicator_count = 0) const;
  // Returns the memory that a device predicted to use `memory` does not exceed at the accepted
  // risk.
  Bytes Upper(Bytes memory) const { return Bytes::Ceil(memory.as_double() * upper_factor); }

  // Returns the largest peak of tensors for which the upper bound of `DeviceMemory` fits into
  // `usable`; negative if not even the overheads fit. Arguments are those of `DeviceMemory`. O(1).
  Bytes TensorBudget(Bytes usable, int pipeline_parallel_degree, int ranks_per_stage,
                     int communicator_count = 0) const;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_MEMORY_OVERHEADS_H_
