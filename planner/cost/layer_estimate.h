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
  // Tokens of a whole sample, above 0: those of the definition, or of a measurement that is scaled
  // to them.
  int sequence_length = 0;
  // Whether the ranks of the tensor group also share the tokens between their matrices (Megatron's
  // sequence parallelism).
  bool sequence_parallel = false;
};

// The times of one micro-batch on one device. Collectives, and what recomputation would repeat, are
// not in them.
struct LayerTimeEstimate {
  Seconds forward;   // > 0
  Seconds backward;  // > 0
};

// The memory of one device; members mean what those of `LayerMemoryPoint` (profile_snapshot.h)
// mean: activations are those without recomputation, and checkpoints those kept instead if the
// layer is recomputed in full.
struct LayerMemoryEstimate {
  int64_t parameter_count = 0;
  Bytes activation_per_sample;
  Bytes checkpoint_per_sample;
};

// Estimates of one layer definition. Either function may be empty; a number that it would give and
// that was not measured is then missing (`ResolutionNotes::missing`). Both are pure. The size of
// the micro-batch is in samples, above 0, and may be a fraction. REQUIRES, unchecked: times do not
// fall as the micro-batch or the sequence grows.
struct LayerEstimator {
  std::function<LayerTimeEstimate(const EstimateShape&, double micro_batch_size)> times;
  std::function<LayerMemoryEstimate(const EstimateShape&)> memory;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_LAYER_ESTIMATE_H_
