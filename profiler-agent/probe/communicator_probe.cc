#include "profiler-agent/probe/communicator_probe.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "executor/device/kernels/array_pool.h"

namespace parplan {
namespace {

// Elements of the first all-reduce, as many as `parplan-torch profile` reduces for its figure.
constexpr int64_t kReducedCount = int64_t{1} << 20;

}  // namespace

absl::StatusOr<CommunicatorMemory> MeasureCommunicators(RankContext& job, Device& device,
                                                        LayerKernels& kernels,
                                                        Communicator& control, int group_count) {
  ArrayPool pool(device.memory());
  PARPLAN_ASSIGN_OR_RETURN(
      const Array reduced,
      pool.Take(ArrayUse::kTransient, Bytes::Of(kReducedCount * ElementSize(kernels.type()))));
  // The kernel is loaded before the first look.
  kernels.Zero(reduced.data(), kReducedCount);
  PARPLAN_ASSIGN_OR_RETURN(const DeviceMemoryUse before, device.MemoryUse());
  CommunicatorMemory memory;
  memory.context_before = before.context;
  std::vector<int> everyone(static_cast<size_t>(job.world_size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  for (int i = 0; i < group_count; ++i) {
    PARPLAN_ASSIGN_OR_RETURN(
        std::unique_ptr<Communicator> group,
        device.MakeGroup(job, absl::StrCat("probe everyone ", i + 1), everyone));
    PARPLAN_RETURN_IF_ERROR(group->Warm());
    CollectiveCall call;
    call.operation = Operation::kAllReduce;
    call.type = kernels.type();
    call.count = kReducedCount;
    call.send = reduced.data();
    call.receive = reduced.data();
    PARPLAN_RETURN_IF_ERROR(group->Run(call));
    memory.groups.push_back(std::move(group));
  }
  PARPLAN_ASSIGN_OR_RETURN(const DeviceMemoryUse after, device.MemoryUse());
  const int count = after.communicator_count - before.communicator_count;
  double each = -1.0;
  if (count > 0) {
    memory.all = std::max(after.context - before.context, Bytes());
    each = static_cast<double>((memory.all.count() + count - 1) / count);
  }
  PARPLAN_RETURN_IF_ERROR(control.AllReduce(ElementType::kFloat64, &each, 1, Reduction::kMax));
  // Nothing is no figure: other programs gave memory back meanwhile.
  if (each > 0.0) memory.each = Bytes::Ceil(each);
  return memory;
}

}  // namespace parplan
