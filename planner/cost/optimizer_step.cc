#include "planner/cost/optimizer_step.h"

namespace parplan {

double OptimizerBytesPerParameter(Precision precision, Optimizer optimizer,
                                  const RuntimeTraits& runtime) {
  const PrecisionTraits& formats = TraitsOf(precision);
  const bool mixed = formats.has_master_weights();
  double bytes = 0.0;
  // A 32-bit copy of 16-bit gradients.
  if (mixed && runtime.gradient_bytes == 2) bytes += 2.0 + 4.0;
  // Gradients are unscaled and checked for overflow.
  if (formats.scales_loss) bytes += 4.0 + 4.0;
  // Gradients are read for their norm, then clipped.
  bytes += 4.0 + 8.0;
  // Adam reads weight, gradient and two moments of m bytes and writes all but the gradient. In
  // single operations: each moment is scaled (2 m) and its gradient added (2 m + 4); the root of
  // the second is taken (m + 4), scaled (8) and shifted (8); the weight is updated (12 + 4).
  if (optimizer == Optimizer::kAdam) {
    const double moment = runtime.moment_bytes;
    bytes += runtime.fused_optimizer
                 ? 8.0 + 4.0 + 4.0 * moment
                 : 2.0 * (4.0 * moment + 4.0) + (moment + 4.0) + 2.0 * 8.0 + 16.0;
  } else {
    bytes += 8.0 + 4.0;
  }
  // The 16-bit copy of the weights.
  if (mixed) bytes += 4.0 + 2.0;
  // Gradients set to zero.
  bytes += mixed ? runtime.gradient_bytes : 4.0;
  return bytes;
}

double ShardedGradientShare(Precision precision, Optimizer optimizer, int data_parallel_degree) {
  const auto element = static_cast<double>(BytesPerElement(precision));
  // The step reads and clears the gradient, and reads and writes each moment and the 32-bit weight.
  const double moments = optimizer == Optimizer::kAdam ? 2.0 : 1.0;
  const double rounded = TraitsOf(precision).has_master_weights() ? element : 0.0;
  const double step = 2.0 * element + 8.0 + 8.0 * moments + rounded;
  return (element + 3.0 * element / data_parallel_degree) / step;
}

Seconds OptimizerStepTime(double parameter_count, ShardingLevel sharding_level,
                          int data_parallel_degree, Precision precision, Optimizer optimizer,
                          const RuntimeTraits& runtime, const DeviceDescription& device,
                          const Coefficients& coefficients) {
  const double updated = sharding_level == ShardingLevel::kNone
                             ? parameter_count
                             : parameter_count / data_parallel_degree;
  return Seconds::Of(
      updated * OptimizerBytesPerParameter(precision, optimizer, runtime) /
      (device.memory_bytes_per_second * coefficients[Coefficient::kMemoryEfficiency]));
}

}  // namespace parplan
