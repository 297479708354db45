// The update of the weights after the last backward pass.

#ifndef PARPLAN_PLANNER_COST_OPTIMIZER_STEP_H_
#define PARPLAN_PLANNER_COST_OPTIMIZER_STEP_H_

#include "base/units.h"
#include "planner/model/coefficients.h"
#include "planner/model/hardware.h"
#include "planner/model/model_spec.h"
#include "planner/model/runtime_traits.h"
#include "planner/model/strategy.h"

namespace parplan {

// Bytes of device memory read and written for one parameter: gradients made 32-bit
// where the buffer is not, unscaled and checked (fp16 only), their norm taken and
// clipped; Adam over weight, gradient and two moments; the 16-bit copy; gradients
// zeroed.
double OptimizerBytesPerParameter(Precision precision, Optimizer optimizer,
                                  const RuntimeTraits& runtime);

// Time of the step on one rank. `parameter_count` is what the rank would hold without
// sharding (tensor and pipeline parallelism applied); with any sharding level each of
// `data_parallel_degree` ranks updates its part. Collectives are not included.
Seconds OptimizerStepTime(double parameter_count, ShardingLevel sharding_level,
                          int data_parallel_degree, Precision precision, Optimizer optimizer,
                          const RuntimeTraits& runtime, const DeviceDescription& device,
                          const Coefficients& coefficients);

// Where gradients are sharded they are cleared whole before every backward pass, and this
// rank's part of them is added up after it. What both take, as a share of a measured step of
// the optimizer over all of the parameters: by the bytes of memory that they move, each as
// this house's executor does it.
double ShardedGradientShare(Precision precision, Optimizer optimizer, int data_parallel_degree);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_OPTIMIZER_STEP_H_
