#include "planner/model/device_memory.h"

#include <cmath>
#include <cstdint>

namespace parplan {

Bytes DeviceMemoryFor(const PlanningProblem& problem, Bytes usable) {
  constexpr int64_t kMebibyte = int64_t{1} << 20;
  const double share = 1.0 - problem.rules().memory_headroom_ratio;
  const Bytes reserved = problem.node_group(kSearchedGroup).reserved_memory;
  const Bytes device = reserved + Bytes::Ceil(usable.as_double() / share);
  int64_t mebibytes = (device.count() + kMebibyte - 1) / kMebibyte;
  // One MiB more if rounding in `PlanningProblem::Create` would leave a byte too little.
  const auto available = static_cast<double>(mebibytes * kMebibyte - reserved.count());
  if (std::floor(available * share) < usable.as_double()) ++mebibytes;
  return Bytes::Of(mebibytes * kMebibyte);
}

}  // namespace parplan
