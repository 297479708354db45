// Memory of one layer, resolved item by item from measurements and theory.

#ifndef PARPLAN_PLANNER_COST_MEASURED_LAYER_MEMORY_H_
#define PARPLAN_PLANNER_COST_MEASURED_LAYER_MEMORY_H_

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "planner/cost/layer_estimate.h"
#include "planner/cost/layer_needs.h"
#include "planner/model/model_spec.h"
#include "planner/model/profile_snapshot.h"

namespace parplan {

// Parameters and activations of one layer at the sequence length of its
// definition, by tensor-parallel degree. Immutable.
//
// Activations over the sequence length: straight in logarithms between measured
// lengths; outside them, only with `allow_estimates`, as a s + b s^2 through the
// two nearest (tensors of one row a token, and scores of attention), neither part
// below 0. Over the degree: as a + b / t between measured degrees, a part that is
// split and one that is not; beyond them, only with `allow_estimates`, by the
// estimator times the ratio of measured to estimated at the nearest degree,
// without an estimator by the same line, and never below a perfect split.
// Everything rounds up.
class MeasuredLayerMemory {
 public:
  struct AtDegree {
    int tensor_parallel_degree = 1;
    int64_t parameter_count = 0;
    Bytes activation_per_sample;
    Bytes checkpoint_per_sample;
  };

  // What is missing goes to `notes.missing`; the sizes are then unusable.
  // `estimator` may be null, or have no memory.
  static MeasuredLayerMemory Resolve(const LayerDefinition& definition, Precision precision,
                                     const std::vector<LayerMemoryPoint>& memories,
                                     const LayerNeeds& needs, const LayerEstimator* estimator,
                                     ResolutionNotes& notes);

  // REQUIRES: the degree was needed.
  const AtDegree& At(int tensor_parallel_degree) const;

  // Whether the sizes at degrees above 1 are those with sequence parallelism.
  bool sequence_parallel() const { return sequence_parallel_; }

 private:
  class Resolver;

  bool sequence_parallel_ = false;
  std::vector<AtDegree> degrees_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_MEASURED_LAYER_MEMORY_H_
