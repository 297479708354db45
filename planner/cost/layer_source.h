// Time and memory of one layer on one device, wherever the numbers come from:
// stopwatches first, theory else, item by item.

#ifndef PARPLAN_PLANNER_COST_LAYER_SOURCE_H_
#define PARPLAN_PLANNER_COST_LAYER_SOURCE_H_

#include <optional>

#include "base/units.h"
#include "planner/cost/analytic_layer.h"
#include "planner/cost/layer_needs.h"
#include "planner/cost/layer_profile.h"
#include "planner/cost/rank_memory.h"
#include "planner/model/calibration.h"
#include "planner/model/planning_problem.h"
#include "planner/model/strategy.h"

namespace parplan {

// One micro-batch without communication. The device is busy:
struct LayerPasses {
  Seconds forward;
  Seconds backward;
  // In front of the backward pass, as the strategy recomputes.
  Seconds recompute;
  // What the host needs to launch the forward pass, and the other two. It runs ahead of
  // the device, so a pass takes as long as the slower of host and device, collectives
  // included; 0 where a stopwatch saw both.
  Seconds forward_host;
  Seconds backward_host;
  // Part of the backward pass behind which tensor-parallel collectives can hide.
  Seconds hiding_backward;
  // Parts of both passes in which attention works on keys and values.
  Seconds forward_attention;
  Seconds backward_attention;
};

// The same for every level of recomputation.
struct LayerWork {
  // Without.
  LayerPasses bare;
  // What is done again in front of the backward pass; nothing where the level does not
  // apply or was not asked for.
  PassTime full;
  PassTime selective;

  LayerPasses At(RecomputeLevel level) const;
};

// Immutable.
class LayerSource {
 public:
  // Resolves a definition of `problem` for `needs`. What is missing or estimated goes
  // to `notes`; with anything missing the source is unusable.
  static LayerSource Resolve(const PlanningProblem& problem, const LayerDefinition& definition,
                             const LayerNeeds& needs, ResolutionNotes& notes);

  const LayerDefinition& definition() const { return definition_; }

  // `samples` of a micro-batch on this device, all the sequence of each counted
  // although context-parallel ranks share it.
  LayerPasses Passes(const Strategy& strategy, double samples) const;

  // What `Passes` says for any level of recomputation, at little more than the price of one.
  LayerWork Work(const Strategy& strategy, double samples, bool with_selective) const;

  // What memory depends on, for `MemoryOfLayer`. With several stages a head that
  // shares the embedding's table holds a copy of it.
  LayerFootprint Footprint(const Strategy& strategy, int pipeline_parallel_degree) const;

  // Whether strategies with tensor parallelism use sequence parallelism.
  bool sequence_parallel() const { return sequence_parallel_; }
  // Whether a stopwatch gave any of the times.
  bool measured() const { return profile_.has_value() && profile_->measured(); }

 private:
  LayerEstimator Estimator() const;
  LayerWork MeasuredWork(const Strategy& strategy, double samples, bool with_selective) const;
  LayerWork AnalyticWork(const Strategy& strategy, double samples) const;
  LayerFootprint MeasuredFootprint(const Strategy& strategy, LayerFootprint footprint,
                                   bool copies_table) const;

  LayerDefinition definition_;
  Precision precision_ = Precision::kBf16;
  RuntimeTraits runtime_;
  // Absent when nothing of the layer was measured.
  std::optional<LayerProfile> profile_;
  // Absent when the device is unknown.
  std::optional<AnalyticLayer> analytic_;
  // The calibration's factors for the kind of layer, wherever its numbers come from.
  double time_factor_ = 1.0;
  // How much slower the slowest device of the job is, where nothing was measured.
  double slowest_device_factor_ = 1.0;
  double activation_factor_ = 1.0;
  // Of a transformer's passes, by floating-point operations.
  double attention_share_ = 0.0;
  bool sequence_parallel_ = false;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_LAYER_SOURCE_H_
