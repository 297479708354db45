// An NCCL communicator with a stream and a thread of its own, which makes it, starts its
// operations in their order, watches them, and ends it when one fails or takes too long.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_NCCL_CHANNEL_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_NCCL_CHANNEL_H_

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "executor/device/comm/communicator.h"
#include "executor/device/comm/rank_context.h"
#include "executor/device/cuda/cuda_queue.h"

namespace parplan::cuda {

// What `result` means: `what` failed, in NCCL's words. OK for success.
absl::Status NcclStatus(ncclResult_t result, ncclComm_t communicator, absl::string_view what);

// A mark on a stream.
class CudaEvent {
 public:
  CudaEvent();
  ~CudaEvent();
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Operations that are started as one. Fields are the channel's once it was given away, but for
// those that say otherwise.
struct NcclTask {
  std::vector<CollectiveCall> calls;
  // After what the owner gave its device before.
  CudaEvent ready;
  CudaEvent begun;
  CudaEvent done;
  absl::Duration start;
  // Guarded by the channel's mutex: whether `done` is on its way, whether the channel has seen it,
  // and how the task ended if it failed.
  bool is_started = false;
  bool is_over = false;
  absl::Status failure;
};

struct NcclChannelSetting {
  // For people, and what it is called among NCCL's.
  std::string name;
  int rank = 0;
  int size = 1;
  // Of this job; outlives the channel.
  RankContext* job = nullptr;
  // Where errors are told; outlives the channel.
  CudaQueue* queue = nullptr;
  // Makes the communicator, perhaps later (ncclInProgress). Called by the channel's thread.
  std::function<absl::StatusOr<ncclComm_t>()> make;
  // Called by that thread for every operation that has ended well, with the GPU's time for it.
  std::function<void(const CollectiveCall& call, absl::Duration busy)> on_done;
};

class NcclChannel {
 public:
  explicit NcclChannel(NcclChannelSetting setting);
  // Waits for what is on the stream, as long as operations may take; what is not fails.
  ~NcclChannel();

  // Blocks until it is made. What `Fail` was told or what NCCL answered.
  absl::Status AwaitReady();
  // The error when the channel has failed.
  absl::Status Start(std::shared_ptr<NcclTask> task);
  // Blocks until the task is on the stream, or has failed.
  absl::Status AwaitStarted(NcclTask& task);
  // Blocks until it has ended.
  absl::Status AwaitDone(NcclTask& task);
  bool IsDone(NcclTask& task);
  // Ends everything with `status`. From any thread.
  void Fail(const absl::Status& status);

  // Runs `work` on the channel's thread, between operations, and gives what it gives.
  absl::Status Call(const std::function<absl::Status(ncclComm_t)>& work);
  // Waits, on that thread, until `communicator` has done what it was told last.
  absl::Status Settle(ncclComm_t communicator, absl::string_view what);

 private:
  void Work();
  void Make();
  absl::Status Launch(NcclTask& task);
  ncclResult_t LaunchCall(const CollectiveCall& call);
  // Takes off what has ended; OK unless something took too long or failed.
  absl::Status Watch();
  // `failure` is OK where the channel is just no longer wanted.
  void End(const absl::Status& failure);
  absl::Status failure();

  const NcclChannelSetting setting_;
  ncclComm_t communicator_ = nullptr;
  cudaStream_t stream_ = nullptr;
  // On the stream, oldest first.
  std::deque<std::shared_ptr<NcclTask>> running_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<std::shared_ptr<NcclTask>> waiting_;
  const std::function<absl::Status(ncclComm_t)>* call_ = nullptr;
  absl::Status call_result_;
  bool is_ready_ = false;
  bool is_ending_ = false;
  absl::Status failure_;
  std::thread thread_;
};

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_NCCL_CHANNEL_H_
