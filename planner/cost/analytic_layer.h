// Times of a layer nobody has measured, from what it is and what the device can do.

#ifndef PARPLAN_PLANNER_COST_ANALYTIC_LAYER_H_
#define PARPLAN_PLANNER_COST_ANALYTIC_LAYER_H_

#include "base/units.h"
#include "planner/cost/layer_operations.h"
#include "planner/cost/matrix_time.h"
#include "planner/model/coefficients.h"
#include "planner/model/hardware.h"
#include "planner/model/model_spec.h"
#include "planner/model/runtime_traits.h"

namespace parplan {

// One pass of one micro-batch over one layer.
struct PassTime {
  // The device is busy, kernels one behind the other.
  Seconds device;
  // The host is, launching them; those of tensor-parallel collectives included.
  // The host runs ahead of the device, so a pass over many layers takes the longer
  // of the two sums.
  Seconds host;
};

struct AnalyticTimes {
  PassTime forward;
  // Without recomputation.
  PassTime backward;
  // The part of the backward pass's device time that weight gradients take which
  // tensor-parallel collectives can hide behind.
  Seconds hiding_backward;
  // In front of the backward pass when the layer recomputes.
  PassTime full_recompute;
  PassTime selective_recompute;
};

class AnalyticLayer {
 public:
  AnalyticLayer(const LayerDefinition& layer, Precision precision, const RuntimeTraits& runtime,
                const DeviceDescription& device, const Coefficients& coefficients);

  // Times for `samples` samples on this device, which may be a fraction. About a
  // microsecond; no allocation. Collectives are not included (`FabricTime`).
  AnalyticTimes Times(const LayerShape& shape, double samples) const;

 private:
  // `launch_interval` from one kernel to the next, s.
  PassTime TimeOf(const OperationList& operations, double launch_interval,
                  double* hiding = nullptr) const;

  LayerDefinition layer_;
  Precision precision_;
  RuntimeTraits runtime_;
  MatrixTime matrix_time_;
  double attention_flops_per_second_;
  double bytes_per_second_;
  double score_bytes_per_second_;
  double random_numbers_per_second_;
  double kernel_overhead_;
  double backward_launch_interval_;
  double forward_launch_interval_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_ANALYTIC_LAYER_H_
