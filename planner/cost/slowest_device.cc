#include "planner/cost/slowest_device.h"

#include "base/normal_score.h"

namespace parplan {

double SlowestDeviceFactor(int device_count, const Coefficients& coefficients) {
  if (device_count <= 1) return 1.0;
  const double probability = (device_count - 0.375) / (device_count + 0.25);
  return 1.0 + coefficients[Coefficient::kDeviceSpread] * NormalScore(probability);
}

}  // namespace parplan
