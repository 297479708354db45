// Times of one layer, resolved item by item from measurements and theory.

#ifndef PARPLAN_PLANNER_COST_MEASURED_LAYER_TIMES_H_
#define PARPLAN_PLANNER_COST_MEASURED_LAYER_TIMES_H_

#include <functional>
#include <vector>

#include "base/units.h"
#include "planner/cost/layer_estimate.h"
#include "planner/cost/layer_needs.h"
#include "planner/cost/measured_table.h"
#include "planner/model/model_spec.h"
#include "planner/model/profile_snapshot.h"

namespace parplan {

// Forward and backward time of one layer at the sequence length of its
// definition, by tensor-parallel degree and micro-batch. Immutable.
//
// Sequence lengths are compared by the work of a sample
// (`ForwardFlopsPerSample`; tokens where it is 0). For each degree that is needed:
//
//   1. measured there, at lengths around the one wanted: its `TimeTable`;
//   2. measured there at other lengths, and another degree around the wanted one:
//      its time at the nearest length, times what the nearest such degree shows
//      of the lengths;
//   3. measured at other lengths only (with `allow_estimates`): its time at the
//      nearest, times what the estimator says of the lengths; without an
//      estimator the table's alpha-beta;
//   4. between measured degrees: straight in logarithms between them;
//   5. beyond them: the estimator, scaled by the ratio of measured to estimated
//      time at the nearest degree (with `allow_estimates`, geometric mean over
//      its points); without an estimator the nearest degree at the micro-batch of
//      as much work. Below them only with `allow_estimates`.
//
// Backward times that were not measured are the forward times by the mean ratio
// of those that were; where there are none, by the estimator's ratio (with
// `allow_estimates`), else 2: gradients of inputs and of weights (papers.md 1.5).
class MeasuredLayerTimes {
 public:
  // What is missing goes to `notes.missing`; the times are then unusable.
  // `sequence_parallel` is told to the `estimator`, which may be null, or have no
  // times.
  static MeasuredLayerTimes Resolve(const LayerDefinition& definition,
                                    const std::vector<LayerTimingPoint>& timings,
                                    const LayerNeeds& needs, bool sequence_parallel,
                                    const LayerEstimator* estimator, ResolutionNotes& notes);

  // REQUIRES: the degree was needed. `micro_batch_size` >= 0, of this device. For
  // more samples never less. No allocation where it was measured.
  Seconds Forward(int tensor_parallel_degree, double micro_batch_size) const;
  Seconds Backward(int tensor_parallel_degree, double micro_batch_size) const;

  MeasurementSource SourceOf(int tensor_parallel_degree, double micro_batch_size) const;

  // Whether a stopwatch gave any of the times.
  bool measured() const { return measured_; }

 private:
  struct AtDegree {
    int tensor_parallel_degree = 1;
    // Over samples; empty where the estimator is asked.
    LogLogCurve forward;
    LogLogCurve backward;
    // Multiplies the samples where the curves are those of another degree.
    double sample_factor = 1.0;
    // Multiply estimated times.
    double forward_ratio = 1.0;
    double backward_ratio = 1.0;
    MeasurementSource source = MeasurementSource::kEstimated;
    std::vector<double> measured_sizes;  // ascending
  };
  class Resolver;

  const AtDegree& At(int tensor_parallel_degree) const;
  LayerTimeEstimate Estimate(const AtDegree& at, double micro_batch_size) const;

  int sequence_length_ = 0;
  bool sequence_parallel_ = false;
  bool measured_ = false;
  std::function<LayerTimeEstimate(const EstimateShape&, double)> estimate_;
  std::vector<AtDegree> degrees_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_MEASURED_LAYER_TIMES_H_
