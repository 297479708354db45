// Time and memory of one layer on one device, each number from a measurement if there is one, else
// from theory. `GroupCosts` has one for each definition.

#ifndef PARPLAN_PLANNER_COST_LAYER_SOURCE_H_
#define PARPLAN_PLANNER_COST_LAYER_SOURCE_H_

#include <array>
#include <optional>

#include "base/units.h"
#include "planner/cost/analytic_layer.h"
#include "planner/cost/layer_memory.h"
#include "planner/cost/layer_needs.h"
#include "planner/cost/layer_profile.h"
#include "planner/model/calibration.h"
#include "planner/model/planning_problem.h"
#include "planner/model/strategy.h"

namespace parplan {

// The times of one micro-batch without communication.
struct LayerPasses {
  // Time the device is busy.
  Seconds forward;
  Seconds backward;
  // Time the device recomputes before the backward pass.
  Seconds recompute;
  // Time the host needs to launch the forward pass, and the other two together. The host runs ahead
  // of the device, so a pass takes as long as the slower of both, collectives included. 0 if the
  // times above were measured, since they then include the host.
  Seconds forward_host;
  Seconds backward_host;
  // Parts behind which tensor-parallel collectives can hide: in weight gradients, and part by part
  // in products that read what a collective gathers or write what one scatters.
  Seconds hiding_backward;
  Seconds splitting_forward;
  Seconds splitting_backward;
  // The part of `backward` in products for gradients of weights; 0 unless the runtime splits
  // backward passes. Of a measured pass it is the share of theory.
  Seconds backward_weights;
  // Parts of both passes in which attention works on keys and values.
  Seconds forward_attention;
  Seconds backward_attention;
};

// The parts of a layer whose recomputation is priced beside that of the whole layer. Each value
// includes those before it.
enum class RepeatedParts {
  kWholeLayer,
  // Selective recomputation.
  kAttention,
  kModules,
};

// Returns the parts that must be priced for a recomputation.
inline RepeatedParts PartsOf(RecomputeLevel level) {
  return level == RecomputeLevel::kModules     ? RepeatedParts::kModules
         : level == RecomputeLevel::kSelective ? RepeatedParts::kAttention
                                               : RepeatedParts::kWholeLayer;
}

// The same times for every recomputation.
struct LayerWork {
  // Without recomputation.
  LayerPasses bare;
  // Work repeated before the backward pass; 0 if the level does not apply or was not asked for.
  PassTime full;
  PassTime selective;
  // [module] the same for each module by itself, by the numbers of `RecomputeModule`.
  std::array<PassTime, kRecomputeModuleCount + 1> modules;

  // Returns the times under one recomputation. REQUIRES, unchecked: its parts were asked for.
  LayerPasses At(const Recomputation& recomputation) const;
  // Multiplies the device's time of all that is repeated.
  void ScaleRepeated(double factor);
};

// The numbers of one layer definition. Immutable.
class LayerSource {
 public:
  // Resolves a definition of `problem` on the devices of `group` for `needs`. Missing and estimated
  // numbers are added to `notes`; if any is missing the source is unusable.
  static LayerSource Resolve(const PlanningProblem& problem, GroupIndex group,
                             const LayerDefinition& definition, const LayerNeeds& needs,
                             ResolutionNotes& notes);

  // The definition that `Resolve` was given.
  const LayerDefinition& definition() const { return definition_; }

  // Returns the times for `samples` samples of a micro-batch on this device, which may be a
  // fraction. Context-parallel ranks that share a sample each count it whole. REQUIRES: the
  // tensor-parallel degree was in `needs`; aborts otherwise if the layer was measured.
  LayerPasses Passes(const Strategy& strategy, double samples) const;

  // Returns the times of `Passes` for recomputation of all `parts`, in little more time than one
  // takes.
  LayerWork Work(const Strategy& strategy, double samples, RepeatedParts parts) const;

  // Returns the sizes that `MemoryOfLayer` needs. With several stages a head that shares the
  // embedding's table, and a layer that predicts a further token, hold a copy of it.
  LayerFootprint Footprint(const Strategy& strategy, int pipeline_parallel_degree) const;

  // True if strategies with tensor parallelism use sequence parallelism.
  bool sequence_parallel() const { return sequence_parallel_; }
  // True if any of the times was measured or derived from a measurement.
  bool measured() const { return profile_.has_value() && profile_->measured(); }

 private:
  // Resolves an opaque layer: each time must have been measured.
  void ResolveOpaque(const MeasuredLayer* measured, const LayerNeeds& needs,
                     ResolutionNotes& notes);
  LayerEstimator Estimator() const;
  LayerWork MeasuredWork(const Strategy& strategy, double samples, RepeatedParts parts) const;
  LayerWork AnalyticWork(const Strategy& strategy, double samples, RepeatedParts parts) const;
  LayerFootprint MeasuredFootprint(const Strategy& strategy, LayerFootprint footprint,
                                   bool copies_table) const;

  LayerDefinition definition_;
  Precision precision_ = Precision::kBf16;
  RuntimeTraits runtime_;
  // Absent if nothing of the layer was measured.
  std::optional<LayerProfile> profile_;
  // Absent if the device is unknown.
  std::optional<AnalyticLayer> analytic_;
  // The calibration's factor for the kind of layer, applied to measured and estimated times.
  double time_factor_ = 1.0;
  // Factor by which the slowest device of the group is slower than the average one. Only estimated
  // times have it, since measured ones contain it.
  double slowest_device_factor_ = 1.0;
  double activation_factor_ = 1.0;
  // Share of attention in a transformer layer's passes, by floating-point operations.
  double attention_share_ = 0.0;
  bool sequence_parallel_ = false;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_LAYER_SOURCE_H_
