// A GPU as a `Device` (device_backend.h) of one rank.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_DEVICE_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_DEVICE_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/device/backend/device_backend.h"
#include "executor/device/backend/load_backend.h"
#include "executor/device/comm/staged_communicator.h"
#include "executor/device/cuda/cuda_memory.h"
#include "executor/device/cuda/cuda_queue.h"
#include "executor/device/cuda/nccl_device.h"

namespace parplan::cuda {

// The CUDA plugin's back end (plugin.cc) makes it; the thread that opened it uses it. Methods and
// their errors are those of `Device`. `MakeGroup` makes groups of NCCL or staged groups, which go
// through the memory of the host, as `GroupTransport` says:
//   - kStaged: always staged.
//   - kAutomatic: staged if two of the ranks are on one GPU, else NCCL. To find out, each rank
//     publishes its GPU and waits for those of the others. The first staged group is reported on
//     standard error.
//   - kNative: always NCCL. A group with two ranks on one GPU fails when it is connected
//     (`Communicator::Warm`).
// Without NCCL (nccl_library.h) a group of one rank is staged under each of them, which is not
// reported.
class CudaDevice : public Device, public StagingCopies {
 public:
  // Opens GPU `device` as CUDA numbers GPUs, from 0. Binds the calling thread, and threads that it
  // starts later, to processors near the GPU (BindNearDevice), and makes the GPU the thread's
  // current one. RESOURCE_EXHAUSTED if the GPU has no memory; INTERNAL for every other error, also
  // for a number that no GPU has. After an error the thread may stay bound.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(
      int device, GroupTransport groups, AttentionChoice attention = AttentionChoice::kAutomatic);

  absl::StatusOr<std::unique_ptr<LayerKernels>> MakeKernels(ElementType type) override;
  DeviceMemory& memory() override { return *memory_; }
  std::unique_ptr<Stopwatch> MakeStopwatch() override;
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(RankContext& job, const std::string& name,
                                                          const std::vector<int>& ranks) override;
  absl::Status CopyFromHost(const void* host, void* device, Bytes size) override {
    return queue_->CopyFromHost(host, device, size.count());
  }
  absl::Status CopyToHost(const void* device, void* host, Bytes size) override {
    return queue_->CopyToHost(device, host, size.count());
  }
  absl::Status Synchronize() override { return queue_->Synchronize(); }
  absl::StatusOr<DeviceMemoryUse> MemoryUse() override;
  std::vector<std::string> Notes() const override {
    std::vector<std::string> notes = queue_->Notes();
    for (std::string& note : nccl_.Notes()) notes.push_back(std::move(note));
    return notes;
  }
  absl::Status ResetMemoryPeak() override { return memory_->ResetPeak(); }

 private:
  CudaDevice(std::unique_ptr<CudaQueue> queue, std::unique_ptr<CudaMemory> memory,
             GroupTransport groups, std::string place)
      : queue_(std::move(queue)),
        memory_(std::move(memory)),
        groups_(groups),
        place_(std::move(place)),
        nccl_(*queue_) {}
  absl::Status ToHost(const void* device, void* host, int64_t byte_count) override {
    return queue_->CopyToHost(device, host, byte_count);
  }
  absl::Status FromHost(const void* host, void* device, int64_t byte_count) override {
    return queue_->CopyFromHost(host, device, byte_count);
  }
  // Returns whether two of the ranks are on one GPU.
  absl::StatusOr<bool> ShareDevice(RankContext& job, const std::vector<int>& ranks);

  const std::unique_ptr<CudaQueue> queue_;
  const std::unique_ptr<CudaMemory> memory_;
  const GroupTransport groups_;
  // Identifies the GPU among those of all machines.
  const std::string place_;
  // Number of groups made so far, by name and ranks.
  std::map<std::string, int> group_counts_;
  // Whether a staged group was reported, which is done once.
  bool has_staged_ = false;
  NcclDevice nccl_;
};

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_DEVICE_H_
