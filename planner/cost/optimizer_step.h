// Time of the weight update after the last backward pass. `GroupCosts` calls it.

#ifndef PARPLAN_PLANNER_COST_OPTIMIZER_STEP_H_
#define PARPLAN_PLANNER_COST_OPTIMIZER_STEP_H_

#include "base/units.h"
#include "planner/model/coefficients.h"
#include "planner/model/hardware.h"
#include "planner/model/model_spec.h"
#include "planner/model/runtime_traits.h"
#include "planner/model/strategy.h"

namespace parplan {

// Returns the bytes of device memory read and written for one parameter. Gradients are widened to
// 32 bits if their buffer is narrower, unscaled and checked if the loss is scaled, and clipped by
// their norm; Adam reads weight, gradient and two moments and writes all but the gradient; the
// 16-bit copy of the weight is written; gradients are zeroed. The kernel of the optimizer reads and
// writes moments of `RuntimeTraits::moment_bytes` as they are kept (Transformer Engine, FusedAdam
// with moments in bf16).
double OptimizerBytesPerParameter(Precision precision, Optimizer optimizer,
                                  const RuntimeTraits& runtime);

// Returns the time of the step on one rank. `parameter_count` is the number of parameters the rank
// would hold without sharding, tensor and pipeline parallelism applied; with any sharding level but
// `kNone` each of the `data_parallel_degree` ranks that have the same parameters, context-parallel
// ones included, updates its part. Collectives are not included.
Seconds OptimizerStepTime(double parameter_count, ShardingLevel sharding_level,
                          int data_parallel_degree, Precision precision, Optimizer optimizer,
                          const RuntimeTraits& runtime, const DeviceDescription& device,
                          const Coefficients& coefficients);

// Returns the time of handling sharded gradients as a share of a measured optimizer step over all
// parameters. Sharded gradients are cleared whole before every backward pass, and this rank's part
// of them is added up after it. The share is that of the bytes of memory moved, as parplan's own
// executor moves them.
double ShardedGradientShare(Precision precision, Optimizer optimizer, int data_parallel_degree);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_OPTIMIZER_STEP_H_
