#include "planner/cost/exponential_cost.h"

namespace parplan {
namespace {

// Between the ratios of 4-bit to 16-bit peaks of Blackwell, 4, and of Blackwell Ultra, 6.
constexpr double kUltraRatio = 5.0;

}  // namespace

ExponentialCost ExponentialCostOf(const DeviceDescription& device) {
  ExponentialCost cost;
  if (device.device_family != "blackwell") return cost;
  cost.usual = 2.0 * ExponentialCost::kUsual;
  const bool is_ultra = device.matrix_flops_4_bit > kUltraRatio * device.matrix_flops_16_bit;
  cost.here = is_ultra ? cost.usual / 2.0 : cost.usual;
  return cost;
}

}  // namespace parplan
