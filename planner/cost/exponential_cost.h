// The cost of a softmax's exponentials beside the products of fused attention. `AnalyticLayer` asks
// it.

#ifndef PARPLAN_PLANNER_COST_EXPONENTIAL_COST_H_
#define PARPLAN_PLANNER_COST_EXPONENTIAL_COST_H_

#include "planner/model/hardware.h"

namespace parplan {

// Fused attention computes one exponential for each score, whatever the size of heads. Both numbers
// say how many more elements of a head take as long in its products, and are above 0.
struct ExponentialCost {
  // Read from the speed that FlashAttention-2 loses from heads of 128 to 64 (its figures 5 and 6;
  // FlashAttention-3, figure 5).
  static constexpr double kUsual = 20.0;

  // Those of the device.
  double here = kUsual;
  // Those of the devices for which `kAttentionEfficiency` of the family stands.
  double usual = kUsual;

  // Returns how many times as long as with heads of 128 on the usual device of the family attention
  // takes for its operations, with heads of `head_size` elements, a number above 0.
  double Slowdown(double head_size) const {
    return (1.0 + here / head_size) / (1.0 + usual / 128.0);
  }
};

// Returns the cost on `device`.
//
// Matrix units of Blackwell multiply twice as much in a clock as Hopper's, beside as many units for
// exponentials (FlashAttention-4: 16 a clock and multiprocessor on both), so the same exponentials
// take as long as twice as many elements. Blackwell Ultra has twice as many of those units (NVIDIA,
// "Making Softmax More Efficient with NVIDIA Blackwell Ultra", 2026). No member says which one a
// device is: Ultra is known by its 4-bit peak, six times that of 16 bits instead of four (data
// sheets of B300 and GB300). Any other family has `kUsual`.
ExponentialCost ExponentialCostOf(const DeviceDescription& device);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_EXPONENTIAL_COST_H_
