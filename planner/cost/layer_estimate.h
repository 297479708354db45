// What theory says of one layer, for what no measurement says.

#ifndef PARPLAN_PLANNER_COST_LAYER_ESTIMATE_H_
#define PARPLAN_PLANNER_COST_LAYER_ESTIMATE_H_

#include <cstdint>
#include <functional>

#include "base/units.h"

namespace parplan {

// One layer as one device works on it.
struct EstimateShape {
  int tensor_parallel_degree = 1;
  int sequence_length = 0;
  bool sequence_parallel = false;
};

struct LayerTimeEstimate {
  Seconds forward;   // > 0
  Seconds backward;  // > 0
};

struct LayerMemoryEstimate {
  int64_t parameter_count = 0;
  Bytes activation_per_sample;
  Bytes checkpoint_per_sample;
};

// Estimates of one layer definition, either part of which may be absent. Both are
// pure functions. Times are those of a micro-batch of so many samples, may be
// fractions, and don't fall as the micro-batch or the sequence grows.
struct LayerEstimator {
  std::function<LayerTimeEstimate(const EstimateShape&, double micro_batch_size)> times;
  std::function<LayerMemoryEstimate(const EstimateShape&)> memory;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_LAYER_ESTIMATE_H_
