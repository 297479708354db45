#include "executor/device/cuda/cuda_device.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <set>

#include "absl/strings/str_join.h"
#include "executor/device/backend/near_cores.h"
#include "executor/device/cuda/cuda_status.h"
#include "executor/device/cuda/cuda_stopwatch.h"
#include "executor/device/cuda/nccl_communicator.h"
#include "executor/device/cuda/nccl_library.h"

namespace parplan::cuda {
namespace {

absl::StatusOr<std::string> PciAddressOf(int device) {
  std::array<char, 32> bus = {};
  PARPLAN_RETURN_IF_CUDA_ERROR(
      ::cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device));
  return std::string(bus.data());
}

// Returns what identifies the GPU among those of all machines.
std::string PlaceOf(const std::string& pci_address) {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return absl::StrCat(boot, "/", pci_address);
}

// Returns the distance between consecutive ranks, which the passive profiler reads from the names
// of NCCL's communicators; 0 if distances differ.
int StrideOf(const std::vector<int>& ranks) {
  if (ranks.size() < 2) return 0;
  const int stride = ranks[1] - ranks[0];
  for (size_t k = 2; k < ranks.size(); ++k) {
    if (ranks[k] - ranks[k - 1] != stride) return 0;
  }
  return std::max(stride, 0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(int device, GroupTransport groups,
                                                             AttentionChoice attention) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string pci_address, PciAddressOf(device));
  // Before threads of CUDA and NCCL start, which inherit it.
  BindNearDevice(pci_address);
  PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<CudaQueue> queue, CudaQueue::Create(device, attention));
  PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<CudaMemory> memory,
                           CudaMemory::Create(device, queue->compute_stream()));
  return std::unique_ptr<CudaDevice>(
      new CudaDevice(std::move(queue), std::move(memory), groups, PlaceOf(pci_address)));
}

absl::StatusOr<DeviceMemoryUse> CudaDevice::MemoryUse() {
  PARPLAN_RETURN_IF_ERROR(queue_->Synchronize());
  size_t free = 0;
  size_t total = 0;
  PARPLAN_RETURN_IF_CUDA_ERROR(::cudaMemGetInfo(&free, &total));
  return DeviceMemoryUse{.context = Bytes::Of(static_cast<int64_t>(total - free)) - memory_->held(),
                         .arrays_peak = memory_->held_peak(),
                         .communicator_count = nccl_.communicator_count()};
}

absl::StatusOr<std::unique_ptr<LayerKernels>> CudaDevice::MakeKernels(ElementType type) {
  std::unique_ptr<LayerKernels> kernels = MakeDeviceKernels(type, *queue_);
  if (kernels == nullptr) {
    return absl::UnimplementedError("the cuda back end computes in fp32 and bf16 only");
  }
  return kernels;
}

std::unique_ptr<Stopwatch> CudaDevice::MakeStopwatch() {
  return std::make_unique<CudaStopwatch>(queue_->compute_stream());
}

absl::StatusOr<bool> CudaDevice::ShareDevice(RankContext& job, const std::vector<int>& ranks) {
  PARPLAN_RETURN_IF_ERROR(job.Publish(absl::StrCat("device/", job.rank()), place_));
  std::set<std::string> places;
  for (const int rank : ranks) {
    PARPLAN_ASSIGN_OR_RETURN(std::string place, job.Await(absl::StrCat("device/", rank)));
    places.insert(std::move(place));
  }
  return places.size() < ranks.size();
}

absl::StatusOr<std::unique_ptr<Communicator>> CudaDevice::MakeGroup(RankContext& job,
                                                                    const std::string& name,
                                                                    const std::vector<int>& ranks) {
  const auto own = std::find(ranks.begin(), ranks.end(), job.rank());
  if (own == ranks.end()) {
    return absl::InvalidArgumentError(absl::StrCat("group ", name, ": rank ", job.rank(),
                                                   " is not among ", absl::StrJoin(ranks, ",")));
  }
  bool is_staged = groups_ == GroupTransport::kStaged;
  if (groups_ == GroupTransport::kAutomatic) {
    PARPLAN_ASSIGN_OR_RETURN(is_staged, ShareDevice(job, ranks));
    if (is_staged && !has_staged_) {
      has_staged_ = true;
      std::fprintf(stderr,
                   "rank %d: two ranks of the group %s are on one GPU, which NCCL refuses: such "
                   "groups go through the host's memory, which is slow\n",
                   job.rank(), name.c_str());
    }
  }
  // A rank that is alone exchanges nothing.
  if (ranks.size() == 1 && !OpenNccl().ok()) is_staged = true;
  if (is_staged) {
    PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> inner, job.MakeGroup(name, ranks));
    return std::make_unique<StagedCommunicator>(std::move(inner), *this);
  }
  const std::string key = absl::StrCat(name, ":", absl::StrJoin(ranks, ","));
  const std::string message_name = absl::StrCat(name, "[", absl::StrJoin(ranks, ","), "]");
  return NcclCommunicator::Create({.purpose = name,
                                   .name = message_name,
                                   .label = absl::StrCat(message_name, " stride=", StrideOf(ranks)),
                                   .id = absl::StrCat(key, "#", group_counts_[key]++),
                                   .rank = static_cast<int>(own - ranks.begin()),
                                   .size = static_cast<int>(ranks.size()),
                                   .job = &job,
                                   .device = &nccl_});
}

}  // namespace parplan::cuda
