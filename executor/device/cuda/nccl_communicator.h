// Collectives between GPUs by NCCL.
//
// Operations run in order on a stream of the group, after earlier work of the device; `Wait` makes
// the device wait for them, not the host, except for a barrier. Sends and receives use channels of
// their own, one for each ordered pair of ranks, so that none waits for an operation started after
// it.

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
  // Name for messages, and an id that no other group of the job has.
  std::string name;
  std::string id;
  int rank = 0;
  int size = 1;
  // Both outlive the communicator.
  RankContext* job = nullptr;
  CudaQueue* queue = nullptr;
};

// One rank's part of a group; `CudaDevice::MakeGroup` makes it. Threads and errors are those of
// `Communicator`.
class NcclCommunicator : public Communicator {
 public:
  // Makes the communicator. Collective: all ranks of the group call it. Returns the errors of
  // NcclStatus (nccl_channel.h), and those of `group.job` (RankContext::Publish and Await).
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
  // Sender and receiver, as ranks of the group.
  using Pair = std::pair<int, int>;

  explicit NcclCommunicator(NcclGroup group) : group_(std::move(group)) {}
  NcclChannelSetting SettingOf(const std::string& name, int rank, int size);
  // Makes a channel whose ranks find each other under `key`.
  std::unique_ptr<NcclChannel> MakeChannel(const std::string& key, int rank, int size);
  NcclChannel& ChannelFor(const CollectiveCall& call);

  const NcclGroup group_;
  mutable std::mutex mutex_;
  CommunicatorStats stats_;  // Guarded by mutex_.
  // A number in device memory, which barriers all-reduce.
  void* number_ = nullptr;
  int split_count_ = 0;
  // Guarded by pairs_mutex_, which `Abort` takes as well.
  std::mutex pairs_mutex_;
  std::map<Pair, std::unique_ptr<NcclChannel>> pair_channels_;
  // Declared last: it is destroyed before the members it uses.
  std::unique_ptr<NcclChannel> channel_;
};

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_NCCL_COMMUNICATOR_H_
