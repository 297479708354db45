#include "planner/model/device_memory.h"

#include <cmath>
#include <cstdint>

namespace parplan {
namespace {

// The sizes, in GiB. Each costs about a search of its own where pipelines are promising.
constexpr int kSmallerDevices[] = {96, 80, 64, 48, 40, 32, 24, 20, 16, 12, 8, 4};

}  // namespace

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

std::vector<std::pair<int, Bytes>> SmallerDevices(const PlanningProblem& problem) {
  std::vector<std::pair<int, Bytes>> devices;
  const Bytes reserved = problem.node_group(kSearchedGroup).reserved_memory;
  for (const int gibibytes : kSmallerDevices) {
    const Bytes available = Bytes::Of(int64_t{gibibytes} << 30) - reserved;
    const Bytes usable = Bytes::Of(static_cast<int64_t>(
        std::floor(available.as_double() * (1.0 - problem.rules().memory_headroom_ratio))));
    if (usable > Bytes() && usable < problem.usable_memory())
      devices.push_back({gibibytes, usable});
  }
  return devices;
}

}  // namespace parplan
