// Memory of one layer, each number from measurements if possible, else from theory. `LayerProfile`
// has one.

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
// Activations over the sequence length s are a straight line in logarithms between measured
// lengths. Outside those of a degree, they grow as at the nearest degree whose lengths are around
// it. If there is none, only with `allow_estimates`, they grow as the estimate; without an
// estimator they are a s + b s^2 through the two nearest (tensors with one row per token, and
// scores of attention), neither part below 0.
//
// Over the degree t they are a + b / t between measured degrees: a part that is not split and one
// that is. Beyond them, only with `allow_estimates`, they are the estimate times the ratio of
// measured to estimated at the nearest degree; without an estimator the line through the two
// largest degrees, neither less than a perfect split nor more than at the largest. With sequence
// parallelism, and below the smallest degree, they are a perfect split. Every size rounds up.
//
// Parameters are those of the nearest length, and over the degree as above, but beyond the measured
// degrees a perfect split without an estimator. The size kept for recomputation grows with the
// length; where it was not measured it is that of the layer's input. It is the same at all degrees
// or, with sequence parallelism, split perfectly.
class MeasuredLayerMemory {
 public:
  // The sizes at one degree; members mean what those of `LayerMemoryPoint` (profile_snapshot.h)
  // mean.
  struct AtDegree {
    int tensor_parallel_degree = 1;
    int64_t parameter_count = 0;
    Bytes activation_per_sample;
    Bytes checkpoint_per_sample;
  };

  // Resolves the sizes for `needs`. Missing ones are added to `notes.missing`; the object is then
  // unusable. Sentences about numbers that were not measured are added to `notes.estimated`.
  // `memories` are points of one layer of a `ProfileSnapshot`, in any order, perhaps none: then
  // every size is the estimator's. `estimator` is read only with `allow_estimates`, and may be null
  // or have no memory.
  static MeasuredLayerMemory Resolve(const LayerDefinition& definition, Precision precision,
                                     const std::vector<LayerMemoryPoint>& memories,
                                     const LayerNeeds& needs, const LayerEstimator* estimator,
                                     ResolutionNotes& notes);

  // Returns the sizes at a degree; the reference is valid as long as the object. REQUIRES: the
  // degree was in `needs` and not missing; aborts otherwise.
  const AtDegree& At(int tensor_parallel_degree) const;

  // Returns whether the sizes at degrees above 1 are those with sequence parallelism.
  bool sequence_parallel() const { return sequence_parallel_; }

 private:
  class Resolver;

  bool sequence_parallel_ = false;
  std::vector<AtDegree> degrees_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_MEASURED_LAYER_MEMORY_H_
