// Collectives between GPUs by NCCL.
//
// Operations run in order on a stream of the group, after what the device was given before;
// `Wait` makes the device wait for them, not the host. Sends and receives go on channels of
// their own, one for each way from a rank to another, so that none waits for what comes after it.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_NCCL_COMMUNICATOR_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_NCCL_COMMUNICATOR_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "executor/device/comm/communicator.h"
#include "executor/device/comm/rank_context.h"
#include "executor/device/cuda/nccl_channel.h"

namespace parplan::cuda {

struct NcclGroup {
  // For people; and a name that no other group of the job has.
  std::string name;
  std::string id;
  int rank = 0;
  int size = 1;
  // Both outlive the communicator.
  RankContext* job = nullptr;
  CudaQueue* queue = nullptr;
};

class NcclCommunicator : public Communicator {
 public:
  // Called by all ranks of the group; waits for them. The errors of NCCL, or of the job.
  static absl::StatusOr<std::unique_ptr<NcclCommunicator>> Create(NcclGroup group);
  ~NcclCommunicator() override;

  int rank() const override { return group_.rank; }
  int size() const override { return group_.size; }
  const std::string& name() const override { return group_.name; }
  absl::StatusOr<std::unique_ptr<PendingWork>> Start(const CollectiveCall& call) override;
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override;
  void Abort(absl::string_view reason) override;
  CommunicatorStats Stats() const override;

 private:
  class Work;
  // From and to, of the group.
  using Way = std::pair<int, int>;

  explicit NcclCommunicator(NcclGroup group) : group_(std::move(group)) {}
  NcclChannelSetting SettingOf(const std::string& name, int rank, int size);
  // A channel whose ranks find one another under `key`.
  std::unique_ptr<NcclChannel> MakeChannel(const std::string& key, int rank, int size);
  NcclChannel& ChannelFor(const CollectiveCall& call);

  const NcclGroup group_;
  mutable std::mutex mutex_;
  CommunicatorStats stats_;  // Guarded by mutex_.
  // A number for barriers, on the device.
  void* number_ = nullptr;
  int split_count_ = 0;
  // Guarded by ways_mutex_, which `Abort` takes as well.
  std::mutex ways_mutex_;
  std::map<Way, std::unique_ptr<NcclChannel>> ways_;
  // Ends before what it uses.
  std::unique_ptr<NcclChannel> channel_;
};

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_NCCL_COMMUNICATOR_H_
