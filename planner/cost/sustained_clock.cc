#include "planner/cost/sustained_clock.h"

#include <algorithm>
#include <cmath>

namespace parplan {
namespace {

// An H100 SXM: NVIDIA H100 Tensor Core GPU data sheet, 2023.
constexpr double kReferenceWatts = 700.0;
constexpr double kReferenceFlops = 989.4e12;

}  // namespace

double SustainedClockShare(const DeviceDescription& device) {
  if (device.power_limit_watts <= 0.0) return 1.0;
  const double power =
      (device.power_limit_watts / device.matrix_flops_16_bit) / (kReferenceWatts / kReferenceFlops);
  return std::min(1.0, std::cbrt(power));
}

}  // namespace parplan
