#include "planner/cost/memory_overheads.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "planner/cost/rank_memory.h"

namespace parplan {

int MemoryOverheads::MaxCommunicatorCount(int pipeline_parallel_degree, int ranks_per_stage) {
  Strategy strategy;
  if (ranks_per_stage > 1) strategy.tensor_parallel_degree = 2;
  if (ranks_per_stage > 2) strategy.data_parallel_degree = 2;
  return CommunicatorCount(strategy, pipeline_parallel_degree, /*has_tied_table_elsewhere=*/true);
}

Bytes MemoryOverheads::DeviceMemory(Bytes tensors, int pipeline_parallel_degree,
                                    int ranks_per_stage, int communicator_count) const {
  const int most = MaxCommunicatorCount(pipeline_parallel_degree, ranks_per_stage);
  return tensors + Bytes::Ceil(tensors.as_double() * fragmentation) + context +
         communicator * std::max(most, communicator_count) + workspace;
}

Bytes MemoryOverheads::TensorBudget(Bytes usable, int pipeline_parallel_degree, int ranks_per_stage,
                                    int communicator_count) const {
  const Bytes fixed =
      DeviceMemory(Bytes(), pipeline_parallel_degree, ranks_per_stage, communicator_count);
  const auto fits = [&](Bytes tensors) {
    return Upper(DeviceMemory(tensors, pipeline_parallel_degree, ranks_per_stage,
                              communicator_count)) <= usable;
  };
  const double budget =
      (usable.as_double() / upper_factor - fixed.as_double()) / (1.0 + fragmentation);
  Bytes tensors = Bytes::Of(static_cast<int64_t>(std::floor(budget)));
  if (tensors < Bytes()) return tensors;
  if (fits(Bytes()) && tensors == Bytes()) return tensors;
  // Margin for rounding in either direction: some bytes per item, far below 4 KiB.
  constexpr int64_t kSlack = 4096;
  do {
    if (tensors == Bytes()) return Bytes::Of(-1);
    tensors = std::max(Bytes(), tensors - Bytes::Of(kSlack));
  } while (!fits(tensors));
  for (int64_t step = kSlack; step > 0; step /= 2) {
    while (fits(tensors + Bytes::Of(step))) tensors += Bytes::Of(step);
  }
  return tensors;
}

}  // namespace parplan
