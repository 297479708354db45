#include "planner/cost/analytic_layer.h"

#include <cmath>

namespace parplan {
namespace {

// Of the integer units, which are as many as those for 32-bit floating point: ten
// rounds of Philox4x32 for four numbers, and making a float of each (Salmon et al.,
// "Parallel Random Numbers: As Easy as 1, 2, 3", SC'11).
constexpr double kOperationsPerRandomNumber = 40.0;

}  // namespace

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
      score_bytes_per_second_(device.memory_bytes_per_second *
                              coefficients[Coefficient::kSoftmaxEfficiency]),
      random_numbers_per_second_(device.vector_flops_fp32 / 2.0 / kOperationsPerRandomNumber),
      kernel_overhead_(coefficients[Coefficient::kKernelOverhead]),
      backward_launch_interval_(runtime.eager ? coefficients[Coefficient::kLaunchInterval] : 0.0),
      forward_launch_interval_(backward_launch_interval_ * runtime.forward_launch_ratio) {}

PassTime AnalyticLayer::TimeOf(const OperationList& operations, double launch_interval,
                               double* hiding) const {
  double device = 0.0;
  for (const LayerOperation& operation : operations) {
    switch (operation.kind) {
      case OperationKind::kMatrixProduct: {
        const double time = matrix_time_.Time(operation.product).value();
        device += time;
        if (hiding != nullptr && operation.hides_collective) *hiding += time;
        break;
      }
      case OperationKind::kElementwise: {
        const double moving =
            operation.bytes / (operation.of_scores ? score_bytes_per_second_ : bytes_per_second_);
        const double drawing = operation.random_count / random_numbers_per_second_;
        device += operation.kernel_count * kernel_overhead_ +
                  (drawing > 0.0 ? std::sqrt(moving * moving + drawing * drawing) : moving);
        break;
      }
      case OperationKind::kFusedAttention:
        device += operation.flops / attention_flops_per_second_ +
                  operation.kernel_count * kernel_overhead_;
        break;
    }
  }
  return {Seconds::Of(device), Seconds::Of(operations.LaunchCount() * launch_interval)};
}

LayerTimes AnalyticLayer::Times(const LayerShape& shape, double samples) const {
  LayerOperations operations;
  ListOperations(layer_, precision_, runtime_, shape, samples, operations);
  LayerTimes times;
  times.forward = TimeOf(operations.forward, forward_launch_interval_);
  double hiding = 0.0;
  times.backward = TimeOf(operations.backward, backward_launch_interval_, &hiding);
  times.hiding_backward = Seconds::Of(hiding);
  if (IsTransformer(layer_.kind)) {
    times.full_recompute = times.forward;
    times.selective_recompute = TimeOf(operations.selective_recompute, forward_launch_interval_);
  }
  return times;
}

}  // namespace parplan
