// An NCCL communicator with a stream and a thread of its own. The thread makes it, starts its
// operations in order, watches them, and ends it when one fails or takes too long.

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

// Returns the status of a call named `what`, with NCCL's message: OK for success, UNAVAILABLE for
// an error of another rank, else INTERNAL. `communicator` may be null.
absl::Status NcclStatus(ncclResult_t result, ncclComm_t communicator, absl::string_view what);

// Owns an event of a stream.
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

// Operations that are started as one. Once the task is started its members belong to the channel,
// except those that say otherwise.
struct NcclTask {
  std::vector<CollectiveCall> calls;
  // Event after earlier work of the owner's device.
  CudaEvent ready;
  CudaEvent begun;
  CudaEvent done;
  absl::Duration start;
  // Guarded by the channel's mutex: whether `done` is recorded on the stream, whether the channel
  // has seen it, and the error if the task failed.
  bool is_started = false;
  bool is_over = false;
  absl::Status failure;
};

struct NcclChannelSetting {
  // Name for messages.
  std::string name;
  int rank = 0;
  int size = 1;
  // The job of the rank; outlives the channel.
  RankContext* job = nullptr;
  // Queue that keeps errors; outlives the channel.
  CudaQueue* queue = nullptr;
  // Makes the communicator, which may not be ready yet (ncclInProgress). Called by the channel's
  // thread.
  std::function<absl::StatusOr<ncclComm_t>()> make;
  // Called by that thread for every operation that has ended without error, with the GPU's time.
  std::function<void(const CollectiveCall& call, absl::Duration busy)> on_done;
};

// Used by the thread of the device, except for `Fail`. Once an operation fails or exceeds
// RankContext::operation_timeout (DEADLINE_EXCEEDED), or the job has (its Health), all fail.
class NcclChannel {
 public:
  explicit NcclChannel(NcclChannelSetting setting);
  // Waits for the operations on the stream, up to their timeout; those not on it fail.
  ~NcclChannel();

  // Blocks until the communicator is made. The status given to `Fail`, or the error of NCCL.
  absl::Status AwaitReady();
  // Queues a task for the channel's thread. The error of the channel if it has failed.
  absl::Status Start(std::shared_ptr<NcclTask> task);
  // Blocks until the task is on the stream, or has failed.
  absl::Status AwaitStarted(NcclTask& task);
  // Blocks until the task has ended.
  absl::Status AwaitDone(NcclTask& task);
  // Returns whether the task has ended or failed.
  bool IsDone(NcclTask& task);
  // Ends all operations with `status`. Any thread may call it.
  void Fail(const absl::Status& status);

  // Runs `work` on the channel's thread, between operations, and returns its status.
  absl::Status Call(const std::function<absl::Status(ncclComm_t)>& work);
  // Waits, on that thread, until the last call on `communicator` is complete.
  absl::Status Settle(ncclComm_t communicator, absl::string_view what);

 private:
  void Work();
  void Make();
  absl::Status Launch(NcclTask& task);
  ncclResult_t LaunchCall(const CollectiveCall& call);
  // Removes tasks that have ended. OK unless one failed or took too long.
  absl::Status Watch();
  // Destroys the communicator. `failure` is OK if the channel is only no longer needed.
  void End(const absl::Status& failure);
  absl::Status failure();

  const NcclChannelSetting setting_;
  ncclComm_t communicator_ = nullptr;
  cudaStream_t stream_ = nullptr;
  // Tasks on the stream, oldest first.
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
