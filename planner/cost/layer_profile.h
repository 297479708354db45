// Measurements and estimates of one layer, resolved for the degrees a problem needs. `LayerSource`
// has one for each definition.

#ifndef PARPLAN_PLANNER_COST_LAYER_PROFILE_H_
#define PARPLAN_PLANNER_COST_LAYER_PROFILE_H_

#include <cstdint>

#include "base/units.h"
#include "planner/cost/layer_estimate.h"
#include "planner/cost/layer_needs.h"
#include "planner/cost/measured_layer_memory.h"
#include "planner/cost/measured_layer_times.h"
#include "planner/model/model_spec.h"
#include "planner/model/profile_snapshot.h"

namespace parplan {

// One layer on one device, by tensor-parallel degree. A number is measured, interpolated between
// measurements or, if that is allowed, extrapolated or estimated. Each number is resolved on its
// own, and the notes list those that were not measured. Immutable.
class LayerProfile {
 public:
  using Needs = LayerNeeds;

  // Resolves `needs` from `measured` (profile_snapshot.h; null if nothing was measured) and, with
  // `needs.allow_estimates`, from `estimator` (null if the device is unknown). Missing numbers are
  // added to `notes.missing`; the profile is then unusable. Keeps the functions of `estimator`, not
  // the pointer.
  static LayerProfile Resolve(const LayerDefinition& definition, Precision precision,
                              const MeasuredLayer* measured, const Needs& needs,
                              ResolutionNotes& notes, const LayerEstimator* estimator = nullptr);

  // The definition that `Resolve` was given, as a copy.
  const LayerDefinition& definition() const { return definition_; }

  // Return the computing time of one micro-batch on one device. `micro_batch_size` is the number of
  // samples this device works on. REQUIRES, here and below: the degree was in `needs`; aborts
  // otherwise.
  Seconds Forward(int tensor_parallel_degree, double micro_batch_size) const {
    return times_.Forward(tensor_parallel_degree, micro_batch_size);
  }
  Seconds Backward(int tensor_parallel_degree, double micro_batch_size) const {
    return times_.Backward(tensor_parallel_degree, micro_batch_size);
  }
  // Returns the source of these times.
  MeasurementSource SourceOf(int tensor_parallel_degree, double micro_batch_size) const {
    return times_.SourceOf(tensor_parallel_degree, micro_batch_size);
  }

  // Returns the number of parameters one device holds before sharding over data-parallel ranks.
  int64_t ParameterCount(int tensor_parallel_degree) const {
    return memory_.At(tensor_parallel_degree).parameter_count;
  }
  // Returns the bytes kept from forward to backward per sample on this device.
  Bytes ActivationPerSample(int tensor_parallel_degree) const {
    return memory_.At(tensor_parallel_degree).activation_per_sample;
  }
  // Returns the bytes kept instead if the layer recomputes.
  Bytes CheckpointPerSample(int tensor_parallel_degree) const {
    return memory_.At(tensor_parallel_degree).checkpoint_per_sample;
  }

  // True if memory was measured with Megatron's sequence parallelism or, if it was measured at no
  // degree above 1, if the needs have it. Strategies with tensor_parallel_degree > 1 then use it.
  bool sequence_parallel() const { return memory_.sequence_parallel(); }
  // Returns whether any of the timings was measured or derived from a measurement.
  bool measured() const { return times_.measured(); }

 private:
  LayerDefinition definition_;
  MeasuredLayerTimes times_;
  MeasuredLayerMemory memory_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_LAYER_PROFILE_H_
