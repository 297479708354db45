// Times of a layer that was not measured, from its operations and the data sheet of the device.
// `LayerSource` has one for a device with a data sheet.

#ifndef PARPLAN_PLANNER_COST_ANALYTIC_LAYER_H_
#define PARPLAN_PLANNER_COST_ANALYTIC_LAYER_H_

#include <array>

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
  // Time the device is busy with kernels, one after the other, or waits for the host to read what
  // the kernels before computed.
  Seconds device;
  // Time the host is busy launching them, and the kernels of tensor-parallel collectives. The host
  // runs ahead of the device, so a pass over many layers takes the longer of the two sums.
  Seconds host;
};

// The times of all passes of one micro-batch over one layer.
struct AnalyticTimes {
  PassTime forward;
  // The backward pass itself; recomputation comes in addition.
  PassTime backward;
  // The parts of the device times in products that tensor-parallel collectives can hide behind:
  // weight gradients of the backward pass, and what `CollectiveShade::kSplit` says of each pass.
  Seconds hiding_backward;
  Seconds splitting_forward;
  Seconds splitting_backward;
  // The part of the backward pass in products for gradients of weights.
  Seconds backward_weights;
  // Passes before the backward pass of a layer that recomputes all of itself, or selectively; 0 for
  // layers that are no transformer layers.
  PassTime full_recompute;
  PassTime selective_recompute;
  // [module] before the backward pass if the layer recomputes the module; 0 if it has none, or the
  // times were not asked for. `kExperts` contains `kExpertActivation` and `kSharedExperts`.
  // `RecomputeModule` has numbers from 1 on; the first element is unused.
  std::array<PassTime, kRecomputeModuleCount + 1> modules;
};

// One layer definition on one kind of device. Immutable.
class AnalyticLayer {
 public:
  // Copies what it needs of the arguments.
  AnalyticLayer(const LayerDefinition& layer, Precision precision, const RuntimeTraits& runtime,
                const DeviceDescription& device, const Coefficients& coefficients);

  // Returns the times for `samples` samples on this device, a number above 0 that may be a
  // fraction; with those of `modules` if `with_modules`. If ranks share experts, the times are
  // those of the rank with most tokens, whatever `shape.expert_load` says. Collectives are not
  // included (`FabricTime` has them); all times of an opaque layer are 0. A call takes about a
  // microsecond and allocates nothing.
  AnalyticTimes Times(const LayerShape& shape, double samples, bool with_modules = false) const;

 private:
  // Seconds in products of each `CollectiveShade`.
  struct Shade {
    double whole = 0.0;
    double split = 0.0;
    // In all products for gradients of weights.
    double weights = 0.0;
  };

  // Adds up `operations`. `launch_interval` is the time in seconds from one launch to the next.
  // `*shade` receives the time of the products that collectives can hide behind.
  PassTime TimeOf(const OperationList& operations, double launch_interval,
                  Shade* shade = nullptr) const;
  // Returns the time of one operation in seconds.
  double TimeOf(const LayerOperation& operation) const;
  // Fills `times.modules` from the forward pass and the other times.
  void AddModules(const OperationList& forward, AnalyticTimes& times) const;

  LayerDefinition layer_;
  Precision precision_;
  RuntimeTraits runtime_;
  int quantised_copy_count_;
  ExponentialCost exponentials_;
  MatrixTime matrix_time_;
  double attention_flops_per_second_;
  double bytes_per_second_;
  double score_bytes_per_second_;
  // Peak of the units for 32-bit floating point: scans are not calibrated.
  double vector_flops_per_second_;
  double random_numbers_per_second_;
  double kernel_overhead_;
  double expert_imbalance_;
  double backward_launch_interval_;
  double forward_launch_interval_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_ANALYTIC_LAYER_H_
