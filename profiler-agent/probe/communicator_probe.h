// Measures what the communicators of a device's library take of its memory. Called by `RunProbe`.

#ifndef PARPLAN_PROFILER_AGENT_PROBE_COMMUNICATOR_PROBE_H_
#define PARPLAN_PROFILER_AGENT_PROBE_COMMUNICATOR_PROBE_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "executor/device/backend/device_backend.h"
#include "executor/device/comm/communicator.h"
#include "executor/device/comm/rank_context.h"
#include "executor/device/kernels/layer_kernels.h"

namespace parplan {

// The memory that groups of all ranks took of this rank's device, each with its first all-reduce,
// since NCCL gets most of its buffers with the first operation.
struct CommunicatorMemory {
  // The groups that were measured, which live on; all join all ranks in device memory.
  std::vector<std::unique_ptr<Communicator>> groups;
  // The memory beside arrays before there was one of them (DeviceMemoryUse::context).
  Bytes context_before;
  // The memory of all of them.
  Bytes all;
  // The mean of them, rounded up, on the rank where it is largest; the same at every rank. Absent
  // where the device has no communicators of its own, since groups go through the host's memory, or
  // where other programs gave back as much memory meanwhile as the groups took.
  std::optional<Bytes> each;
};

// Makes `group_count` (at least 1, which is not checked) groups of all ranks and measures them.
// Collective: all ranks call it, before the device has communicators that are not in use any more,
// whose memory the new ones may take. `control` joins all ranks in host memory. Returns the errors
// of Device::MakeGroup, Communicator::Warm and PendingWork::Wait, and RESOURCE_EXHAUSTED if the
// device has no memory for the all-reduce.
absl::StatusOr<CommunicatorMemory> MeasureCommunicators(RankContext& job, Device& device,
                                                        LayerKernels& kernels,
                                                        Communicator& control, int group_count);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PROBE_COMMUNICATOR_PROBE_H_
