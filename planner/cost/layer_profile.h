// What is known of one layer, resolved for the degrees a problem needs.

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

// One layer on one device, by tensor-parallel degree: measured where it was, between
// measurements where it was around, and, where that is allowed, extended or
// estimated. Each item is resolved on its own; the notes say which is what.
// Immutable.
class LayerProfile {
 public:
  using Needs = LayerNeeds;

  // Resolves `needs` from `measured` (null when nothing was measured) and, with
  // `needs.allow_estimates`, from `estimator` (null when nothing is known of the
  // device). What is missing goes to `notes.missing`; the profile is then
  // unusable. Keeps the functions of `estimator`, not the pointer.
  static LayerProfile Resolve(const LayerDefinition& definition, Precision precision,
                              const MeasuredLayer* measured, const Needs& needs,
                              ResolutionNotes& notes, const LayerEstimator* estimator = nullptr);

  const LayerDefinition& definition() const { return definition_; }

  // Computation of one micro-batch on one device. `micro_batch_size` is the
  // samples this device works on.
  Seconds Forward(int tensor_parallel_degree, double micro_batch_size) const {
    return times_.Forward(tensor_parallel_degree, micro_batch_size);
  }
  Seconds Backward(int tensor_parallel_degree, double micro_batch_size) const {
    return times_.Backward(tensor_parallel_degree, micro_batch_size);
  }
  // Where those come from.
  MeasurementSource SourceOf(int tensor_parallel_degree, double micro_batch_size) const {
    return times_.SourceOf(tensor_parallel_degree, micro_batch_size);
  }

  // Parameters one device holds before any sharding over data-parallel ranks.
  int64_t ParameterCount(int tensor_parallel_degree) const {
    return memory_.At(tensor_parallel_degree).parameter_count;
  }
  // Kept from forward to backward, per sample on this device.
  Bytes ActivationPerSample(int tensor_parallel_degree) const {
    return memory_.At(tensor_parallel_degree).activation_per_sample;
  }
  // Kept instead when the layer recomputes.
  Bytes CheckpointPerSample(int tensor_parallel_degree) const {
    return memory_.At(tensor_parallel_degree).checkpoint_per_sample;
  }

  // Whether memory was measured with Megatron's sequence parallelism, which
  // strategies with tensor_parallel_degree > 1 then use.
  bool sequence_parallel() const { return memory_.sequence_parallel(); }
  // Whether a stopwatch gave any of the times.
  bool measured() const { return times_.measured(); }

 private:
  LayerDefinition definition_;
  MeasuredLayerTimes times_;
  MeasuredLayerMemory memory_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_LAYER_PROFILE_H_
