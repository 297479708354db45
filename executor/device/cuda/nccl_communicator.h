// Collectives between GPUs by NCCL.
//
// The caller's thread gives an operation to NCCL when it is started, so that the GPU gets work in
// the order of the program; two ranks with one program cannot then wait for each other in a circle.
// It runs on the stream of the group's purpose, after earlier work of the device; `Wait` makes the
// device wait for it, not the host, except for a barrier. Operations of one call are one group call
// of NCCL. The thread of `NcclDevice` finds failures and exceeded deadlines. They fail the group's
// later calls, and also every later `Synchronize` of the queue if operations were under way, even
// after a `Wait` that returned OK.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_NCCL_COMMUNICATOR_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_NCCL_COMMUNICATOR_H_

#include <nccl.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "executor/device/comm/communicator.h"
#include "executor/device/comm/rank_context.h"
#include "executor/device/cuda/nccl_device.h"
#include "executor/device/cuda/nccl_group.h"

namespace parplan::cuda {

// One rank's part of a group; `CudaDevice::MakeGroup` makes it. Threads and errors are those of
// `Communicator`. NCCL's communicator is made by `Warm`, by the first operation, which then blocks
// and fails as `Warm` does, or for a part by `Split`.
class NcclCommunicator : public Communicator, private NcclWatched {
 public:
  // Returns the errors of CudaStatus (cuda_status.h), and FAILED_PRECONDITION where NCCL cannot be
  // loaded (nccl_library.h).
  static absl::StatusOr<std::unique_ptr<NcclCommunicator>> Create(NcclGroup group);
  // Waits for operations on the GPU, up to their timeout each; what remains then is aborted. The
  // communicator is destroyed, which NCCL lets wait for the other ranks: a rank that does not come
  // within the timeout, or before the job ends, fails the queue, and a thread is left behind.
  ~NcclCommunicator() override;

  int rank() const override { return group_.rank; }
  int size() const override { return group_.size; }
  const std::string& name() const override { return group_.name; }
  absl::StatusOr<std::unique_ptr<PendingWork>> Start(const CollectiveCall& call) override {
    return StartTogether({&call, 1});
  }
  absl::StatusOr<std::unique_ptr<PendingWork>> StartTogether(
      absl::Span<const CollectiveCall> calls) override;
  // Blocks until all ranks of the group have called it; returns at once if they had before. Returns
  // the errors of NcclStatus and CudaStatus, those of RankContext::Publish, Await and Health, and
  // DEADLINE_EXCEEDED if the ranks do not come within `job->operation_timeout()`, to which an abort
  // of NCCL may add 10 s; a thread that does not end by then is left behind. After a failure of the
  // group, that.
  absl::Status Warm() override;
  // Warms this group first, so also returns the errors of `Warm`. Returns null for a negative
  // `color`. If other ranks do not come in time, this whole group fails too. An abort of this group
  // waits for a split under way as it does for an operation.
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override;
  void Abort(absl::string_view reason) override;
  void MeasureBusy(bool measures) override { measures_busy_ = measures; }
  // Calls are counted when they are started. `busy` has only operations that have ended, and those
  // of one `StartTogether` all under the operation of its first call.
  CommunicatorStats Stats() const override;

 private:
  struct Calls;
  struct Operation;
  class Work;
  using EventPtr = std::unique_ptr<NcclDevice::Event>;

  NcclCommunicator(NcclGroup group, cudaStream_t stream, void* number);
  // Notes what the making of the communicator has added to the GPU's memory in use, `before` it.
  absl::Status NoteMemory(Bytes before);
  absl::Status Launch(absl::Span<const CollectiveCall> calls, ncclComm_t communicator,
                      Operation& operation);
  void Count(const CollectiveCall& call);
  void Look() override;
  // Returns whether the device is through with the operation. Called with mutex_.
  absl::StatusOr<bool> IsOver(const Operation& operation) const;
  // Removes operations that have ended. Called with mutex_.
  absl::Status Collect() const;
  // Returns whether the oldest operation runs for too long. Called with mutex_.
  absl::Status CheckDeadline() const;
  // Ends all operations with `status`, unless they have failed before. Returns before NCCL has
  // aborted them: an abort waits for what the GPU is doing, which may be to wait for an operation
  // of another group that is still to be aborted.
  void Fail(const absl::Status& status);
  absl::Status failure() const;

  NcclGroup group_;
  const cudaStream_t stream_;
  void* const number_;
  int split_count_ = 0;
  std::atomic<bool> measures_busy_ = false;
  // The ranks' meeting; keeps what NCCL refers to.
  std::shared_ptr<NcclMaking> making_;

  // The calls of NCCL with this communicator.
  const std::shared_ptr<Calls> calls_;
  // Guards the rest; taken after `calls_->mutex`.
  mutable std::mutex mutex_;
  ncclComm_t communicator_ = nullptr;
  absl::Status failure_;
  // Aborts what was `communicator_`; joined by the destructor.
  std::thread aborting_;
  // Those that have not been seen to end, oldest first.
  mutable std::deque<std::shared_ptr<Operation>> running_;
  mutable CommunicatorStats stats_;
};

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_NCCL_COMMUNICATOR_H_
