// Times of one layer, each number from measurements if possible, else from theory. `LayerProfile`
// has one.

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
// Sequence lengths are compared by the work of a sample: `ForwardFlopsPerSample`, or tokens if that
// is 0. `allow_estimates` is that of `LayerNeeds`. If there is no timing at all, every time is the
// estimator's; without an estimator or without `allow_estimates`, the times are missing. Without
// `allow_estimates` they are also missing if no degree was measured at lengths around the wanted
// one. Otherwise each degree that is needed takes the first case that applies:
//
//   1. The degree was measured at lengths around the wanted one: its `TimeTable`.
//   2. It was measured at other lengths, and another degree at lengths around the wanted one: its
//      time at the nearest length, times the ratio of both lengths at the nearest such degree.
//   3. It was measured at other lengths only (with `allow_estimates`): its time at the nearest
//      one, times the estimator's ratio of both lengths; without an estimator, the alpha-beta
//      line of its table.
//   4. It lies between measured degrees: a straight line in logarithms between them.
//   5. It lies beyond them: the estimate, scaled by the ratio of measured to estimated time at the
//      nearest degree (with `allow_estimates`; geometric mean over its points); without an
//      estimator or without `allow_estimates`, the nearest degree at the micro-batch of as much
//      work. Degrees below the measured ones only with `allow_estimates`, else they are missing.
//
// Backward times that were not measured are the forward times multiplied by the mean ratio of the
// measured ones; without any, by the estimator's ratio (with `allow_estimates`), else by 2, for the
// gradients of inputs and of weights (docs/papers.md 1.5).
class MeasuredLayerTimes {
 public:
  // Resolves the times for `needs`. Missing ones are added to `notes.missing`; the object is then
  // unusable. Sentences about numbers that were not measured are added to `notes.estimated`.
  // `timings` are points of one layer of a `ProfileSnapshot`, in any order, perhaps none.
  // `sequence_parallel` is passed to `estimator` for degrees above 1; that of `needs` is not read.
  // `estimator` may be null or have no times; its function is copied.
  static MeasuredLayerTimes Resolve(const LayerDefinition& definition,
                                    const std::vector<LayerTimingPoint>& timings,
                                    const LayerNeeds& needs, bool sequence_parallel,
                                    const LayerEstimator* estimator, ResolutionNotes& notes);

  // Return the time of one pass, 0 for no samples. `micro_batch_size` >= 0 is the number of samples
  // on this device; the time never falls as it grows. Allocate nothing if the degree was measured.
  // REQUIRES: the degree was in `needs`, else this aborts; and nothing was missing, which is not
  // checked.
  Seconds Forward(int tensor_parallel_degree, double micro_batch_size) const;
  Seconds Backward(int tensor_parallel_degree, double micro_batch_size) const;

  // Returns the source of the forward time; a backward time made from it in a ratio counts as the
  // same. REQUIRES: the degree was in `needs`; aborts otherwise.
  MeasurementSource SourceOf(int tensor_parallel_degree, double micro_batch_size) const;

  // Returns whether any of the timings was measured or derived from a measurement, also if no
  // degree needs it.
  bool measured() const { return measured_; }

 private:
  struct AtDegree {
    int tensor_parallel_degree = 1;
    // Times over samples; empty if the estimator is used.
    LogLogCurve forward;
    LogLogCurve backward;
    // Factor of the samples if the curves are those of another degree.
    double sample_factor = 1.0;
    // Factors of estimated times.
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
