// What is known of one layer, resolved for the degrees a problem needs.

#ifndef PARPLAN_PLANNER_COST_LAYER_PROFILE_H_
#define PARPLAN_PLANNER_COST_LAYER_PROFILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "planner/base/units.h"
#include "planner/cost/size_curve.h"
#include "planner/model/model_spec.h"
#include "planner/model/profile_snapshot.h"

namespace parplan {

// Sentences collected while measurements are resolved.
struct ResolutionNotes {
  // What is needed and not there, for the PROFILE_MISSING error.
  std::vector<std::string> missing;
  // What is used and was not measured, for `Prediction::estimated_items`.
  std::vector<std::string> estimated;
};

// One layer on one device, by tensor-parallel degree. Immutable.
class LayerProfile {
 public:
  // What the problem may ask.
  struct Needs {
    // Ascending; contains 1.
    std::vector<int> tensor_parallel_degrees;
    // Whether measurements may be replaced by the nearest ones.
    bool allow_estimates = false;
  };

  // Resolves `needs` from `measured` (null when nothing was measured). What is
  // missing goes to `notes.missing`; the profile is then unusable.
  static LayerProfile Resolve(const LayerDefinition& definition, Precision precision,
                              const MeasuredLayer* measured, const Needs& needs,
                              ResolutionNotes& notes);

  const LayerDefinition& definition() const { return definition_; }

  // Computation of one micro-batch on one device. `micro_batch_size` is the
  // samples this device works on.
  Seconds Forward(int tensor_parallel_degree, double micro_batch_size) const;
  Seconds Backward(int tensor_parallel_degree, double micro_batch_size) const;

  // Parameters one device holds before any sharding over data-parallel ranks.
  int64_t ParameterCount(int tensor_parallel_degree) const;
  // Kept from forward to backward, per sample on this device.
  Bytes ActivationPerSample(int tensor_parallel_degree) const;
  // Kept instead when the layer recomputes.
  Bytes CheckpointPerSample(int tensor_parallel_degree) const;

  // Whether memory was measured with Megatron's sequence parallelism, which
  // strategies with tensor_parallel_degree > 1 then use.
  bool sequence_parallel() const { return sequence_parallel_; }
  // Whether a stopwatch gave the times.
  bool measured() const { return measured_; }

 private:
  struct AtDegree {
    int tensor_parallel_degree = 1;
    SizeCurve forward;   // over samples
    SizeCurve backward;  // over samples
    // Divides the samples where the curve is that of degree 1.
    double sample_divisor = 1.0;
    int64_t parameter_count = 0;
    Bytes activation_per_sample;
    Bytes checkpoint_per_sample;
  };

  void ResolveTimes(const MeasuredLayer& measured, const Needs& needs, ResolutionNotes& notes);
  void ResolveMemory(const MeasuredLayer& measured, const Needs& needs, Precision precision,
                     ResolutionNotes& notes);
  const AtDegree& At(int tensor_parallel_degree) const;

  LayerDefinition definition_;
  bool sequence_parallel_ = false;
  bool measured_ = false;
  std::vector<AtDegree> degrees_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_LAYER_PROFILE_H_
