#include "planner/cost/analytic_layer.h"

namespace parplan {

AnalyticLayer::AnalyticLayer(const LayerDefinition& layer, Precision precision,
                             const RuntimeTraits& runtime, const DeviceDescription& device,
                             const Coefficients& coefficients)
    : layer_(layer),
      precision_(precision),
      runtime_(runtime),
      matrix_time_(device, coefficients, precision),
      attention_flops_per_second_(device.MatrixFlops(precision) *
                                  coefficients[Coefficient::kAttentionEfficiency]),
      bytes_per_second_(device.memory_bytes_per_second *
                        coefficients[Coefficient::kMemoryEfficiency]),
      kernel_overhead_(coefficients[Coefficient::kKernelOverhead]),
      launch_interval_(runtime.eager ? coefficients[Coefficient::kLaunchInterval] *
                                           runtime.launch_interval_ratio
                                     : 0.0) {}

PassTime AnalyticLayer::TimeOf(const OperationList& operations) const {
  double device = 0.0;
  for (const LayerOperation& operation : operations) {
    switch (operation.kind) {
      case OperationKind::kMatrixProduct:
        device += matrix_time_.Time(operation.product).value();
        break;
      case OperationKind::kElementwise:
        device += operation.bytes / bytes_per_second_ + operation.kernel_count * kernel_overhead_;
        break;
      case OperationKind::kFusedAttention:
        device += operation.flops / attention_flops_per_second_ +
                  operation.kernel_count * kernel_overhead_;
        break;
    }
  }
  return {Seconds::Of(device), Seconds::Of(operations.LaunchCount() * launch_interval_)};
}

LayerTimes AnalyticLayer::Times(const LayerShape& shape, double samples) const {
  LayerOperations operations;
  ListOperations(layer_, precision_, runtime_, shape, samples, operations);
  LayerTimes times;
  times.forward = TimeOf(operations.forward);
  times.backward = TimeOf(operations.backward);
  if (IsTransformer(layer_.kind)) {
    times.full_recompute = times.forward;
    times.selective_recompute = TimeOf(operations.selective_recompute);
  }
  return times;
}

}  // namespace parplan
