// Estimates of one layer from theory, for sizes and degrees that were not measured. `LayerSource`
// gives them to `LayerProfile`.

#ifndef PARPLAN_PLANNER_COST_LAYER_ESTIMATE_H_
#define PARPLAN_PLANNER_COST_LAYER_ESTIMATE_H_

#include <cstdint>
#include <functional>

#include "base/units.h"

namespace parplan {

// The part of a layer that one device works on.
struct EstimateShape {
  int tensor_parallel_degree = 1;
  int sequence_length = 0;
  bool sequence_parallel = false;
};

// The times of one micro-batch, without recomputation and collectives.
struct LayerTimeEstimate {
  Seconds forward;   // > 0
  Seconds backward;  // > 0
};

// The memory of one device; members mean what those of `LayerMemoryPoint` (profile_snapshot.h)
// mean.
struct LayerMemoryEstimate {
  int64_t parameter_count = 0;
  Bytes activation_per_sample;
  Bytes checkpoint_per_sample;
};

// Estimates of one layer definition. Either function may be absent; both are pure. The size of the
// micro-batch is in samples and may be a fraction. Times do not fall as the micro-batch or the
// sequence grows.
struct LayerEstimator {
  std::function<LayerTimeEstimate(const EstimateShape&, double micro_batch_size)> times;
  std::function<LayerMemoryEstimate(const EstimateShape&)> memory;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_LAYER_ESTIMATE_H_
