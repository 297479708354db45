#include "planner/cost/analytic_layer.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/string_view.h"
#include "planner/model/layer_precision.h"

namespace parplan {
namespace {

// Integer operations per random number: ten rounds of Philox4x32 for four numbers, and the
// conversion of each to a float (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3",
// SC'11). A device has as many integer units as units for 32-bit floating point.
constexpr double kOperationsPerRandomNumber = 40.0;

// Returns the share of the rate of the device's best kernels for fused attention. FlashAttention-2
// is best on devices up to Ada, and on Blackwell's boards for graphics (`blackwell-rtx`), which
// have no asynchronous matrix instructions either. On Hopper it reaches 335 TFLOP/s forward and
// backward with a causal mask (FlashAttention-2, section 4.1), where kernels with asynchronous
// matrix units reach 540 to 616 forward and about 500 backward (FlashAttention-3, figures
// 5 and 6). Version 1 is half as fast as version 2 (FlashAttention-2, abstract: "around
// 2x speedup"). An unknown family counts as one without such units.
double FlashShare(FlashKernel kernel, absl::string_view device_family) {
  constexpr double kFirstOfSecond = 0.5;
  constexpr double kSecondOfNative = 0.65;
  if (kernel == FlashKernel::kNative) return 1.0;
  const bool asynchronous = device_family == "hopper" || device_family == "blackwell";
  const double second = asynchronous ? kSecondOfNative : 1.0;
  return kernel == FlashKernel::kFirst ? kFirstOfSecond * second : second;
}

// Returns the rate of fused attention with long sequences and heads of 128. With operands of 8 bits
// FlashAttention-3 reaches 1.2 PFLOP/s on an H100 where 16 bits reach 740 TFLOP/s (its abstract),
// of twice the peak.
double AttentionFlops(const LayerDefinition& layer, Precision precision,
                      const DeviceDescription& device, const RuntimeTraits& runtime,
                      const Coefficients& coefficients) {
  constexpr double kQuantisedShare = 1200.0 / 740.0 / 2.0;
  const bool is_quantised = runtime.quantised_attention &&
                            QuantisationOf(layer, precision).has_value() &&
                            device.Multiplies(ComputeFormat::k8Bit);
  return device.MatrixFlops(is_quantised ? ComputeFormat::k8Bit : TraitsOf(precision).compute) *
         coefficients[Coefficient::kAttentionEfficiency] *
         FlashShare(runtime.flash_kernel, device.device_family) *
         (is_quantised ? kQuantisedShare : 1.0);
}

}  // namespace

AnalyticLayer::AnalyticLayer(const LayerDefinition& layer, Precision precision,
                             const RuntimeTraits& runtime, const DeviceDescription& device,
                             const Coefficients& coefficients)
    : layer_(layer),
      precision_(precision),
      runtime_(runtime),
      quantised_copy_count_(QuantisedCopyCount(precision, &device)),
      exponentials_(ExponentialCostOf(device)),
      matrix_time_(device, coefficients, precision),
      attention_flops_per_second_(AttentionFlops(layer, precision, device, runtime, coefficients)),
      bytes_per_second_(device.memory_bytes_per_second *
                        coefficients[Coefficient::kMemoryEfficiency]),
      score_bytes_per_second_(device.memory_bytes_per_second *
                              coefficients[Coefficient::kSoftmaxEfficiency]),
      vector_flops_per_second_(device.vector_flops_fp32),
      random_numbers_per_second_(device.vector_flops_fp32 / 2.0 / kOperationsPerRandomNumber),
      kernel_overhead_(coefficients[Coefficient::kKernelOverhead]),
      expert_imbalance_(coefficients[Coefficient::kExpertImbalance]),
      backward_launch_interval_(runtime.eager ? coefficients[Coefficient::kLaunchInterval] : 0.0),
      forward_launch_interval_(backward_launch_interval_ * runtime.forward_launch_ratio) {}

double AnalyticLayer::TimeOf(const LayerOperation& operation) const {
  switch (operation.kind) {
    case OperationKind::kMatrixProduct:
      return matrix_time_.Time(operation.product).value();
    case OperationKind::kElementwise: {
      const double moving =
          operation.bytes / (operation.of_scores ? score_bytes_per_second_ : bytes_per_second_);
      const double drawing = operation.random_count / random_numbers_per_second_;
      return operation.kernel_count * kernel_overhead_ +
             (drawing > 0.0 ? std::sqrt(moving * moving + drawing * drawing) : moving);
    }
    case OperationKind::kFusedAttention:
      return operation.flops * operation.slowdown / attention_flops_per_second_ +
             operation.kernel_count * kernel_overhead_;
    case OperationKind::kScan:
      return operation.kernel_count * kernel_overhead_ +
             std::max(operation.bytes / bytes_per_second_,
                      operation.flops / vector_flops_per_second_);
  }
  return 0.0;
}

PassTime AnalyticLayer::TimeOf(const OperationList& operations, double launch_interval,
                               Shade* shade) const {
  double device = 0.0;
  for (const LayerOperation& operation : operations) {
    const double time = TimeOf(operation);
    device += time;
    if (shade != nullptr && operation.of_weights) shade->weights += time;
    if (shade == nullptr || operation.shade == CollectiveShade::kNone) continue;
    (operation.shade == CollectiveShade::kWhole ? shade->whole : shade->split) += time;
  }
  return {Seconds::Of(device), Seconds::Of(operations.LaunchCount() * launch_interval)};
}

void AnalyticLayer::AddModules(const OperationList& forward, AnalyticTimes& times) const {
  std::array<double, kRecomputeModuleCount + 1> device = {};
  std::array<int, kRecomputeModuleCount + 1> launches = {};
  for (const LayerOperation& operation : forward) {
    if (operation.module == 0) continue;
    device[operation.module] += TimeOf(operation);
    launches[operation.module] += operation.kernel_count;
  }
  const auto add = [](PassTime& sum, const PassTime& part) {
    sum.device += part.device;
    sum.host += part.host;
  };
  const auto of = [&times](RecomputeModule module) -> PassTime& {
    return times.modules[static_cast<int>(module)];
  };
  for (int module = 1; module <= kRecomputeModuleCount; ++module) {
    times.modules[module] = {Seconds::Of(device[module]),
                             Seconds::Of((launches[module] + forward.ModuleLaunchCount(module)) *
                                         forward_launch_interval_)};
  }
  add(of(RecomputeModule::kExperts), of(RecomputeModule::kExpertActivation));
  add(of(RecomputeModule::kExperts), of(RecomputeModule::kSharedExperts));
  if (runtime_.selective_recompute == SelectiveRecompute::kAttention) {
    of(RecomputeModule::kCoreAttention) = times.selective_recompute;
  }
}

AnalyticTimes AnalyticLayer::Times(const LayerShape& shape, double samples,
                                   bool with_modules) const {
  LayerOperations operations;
  LayerShape busiest = shape;
  busiest.expert_load = shape.expert_parallel_degree > 1 ? expert_imbalance_ : 1.0;
  ListOperations(layer_, precision_, runtime_, busiest, samples, operations, quantised_copy_count_,
                 exponentials_);
  AnalyticTimes times;
  Shade forward_shade;
  times.forward = TimeOf(operations.forward, forward_launch_interval_, &forward_shade);
  times.splitting_forward = Seconds::Of(forward_shade.split);
  const Seconds awaited = Seconds::Of(operations.awaited_launch_count * forward_launch_interval_);
  times.forward.device += awaited;
  Shade backward_shade;
  times.backward = TimeOf(operations.backward, backward_launch_interval_, &backward_shade);
  times.hiding_backward = Seconds::Of(backward_shade.whole);
  times.splitting_backward = Seconds::Of(backward_shade.split);
  times.backward_weights = Seconds::Of(backward_shade.weights);
  if (IsTransformer(layer_.kind)) {
    times.full_recompute = times.forward;
    if (runtime_.recompute_stops_early && operations.last_forward_product.Flops() > 0.0) {
      times.full_recompute.device =
          times.full_recompute.device - matrix_time_.Time(operations.last_forward_product);
    }
    times.selective_recompute = TimeOf(operations.selective_recompute, forward_launch_interval_);
    if (with_modules) {
      AddModules(operations.forward, times);
      times.modules[static_cast<int>(RecomputeModule::kExperts)].device += awaited;
    }
  }
  return times;
}

}  // namespace parplan
