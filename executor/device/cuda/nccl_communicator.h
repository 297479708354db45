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
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "executor/device/comm/communicator.h"
#include "executor/device/comm/rank_context.h"
#include "executor/device/cuda/nccl_device.h"

namespace parplan::cuda {

// Returns the status of a call named `what`, with NCCL's message: OK for success, UNAVAILABLE for
// an error of another rank, else INTERNAL. `communicator` may be null.
absl::Status NcclStatus(ncclResult_t result, ncclComm_t communicator, absl::string_view what);

// The group that a communicator is made for.
struct NcclGroup {
  // The groups of one purpose share a stream (`NcclDevice::StreamOf`).
  std::string purpose;
  // A name for messages.
  std::string name;
  // The name that NCCL gives to profilers.
  std::string label;
  // An id that the group's ranks have in common, and no other group of the job has.
  std::string id;
  // This rank's number in the group, from 0 to `size` - 1.
  int rank = 0;
  int size = 1;
  // Both outlive the communicator.
  RankContext* job = nullptr;
  NcclDevice* device = nullptr;
  // How long a call of an operation may be within NCCL after the group has failed, before it is
  // taken to wait for others there and is aborted from outside. Not measured.
  absl::Duration call_patience = absl::Seconds(1);
};

// One rank's part of a group; `CudaDevice::MakeGroup` makes it. Threads and errors are those of
// `Communicator`. NCCL's communicator is made by `Warm`, by the first operation, which then blocks
// and fails as `Warm` does, or for a part by `Split`.
class NcclCommunicator : public Communicator, private NcclWatched {
 public:
  // Returns the errors of CudaStatus (cuda_status.h).
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
  struct Making;
  class Work;
  using EventPtr = std::unique_ptr<NcclDevice::Event>;

  NcclCommunicator(NcclGroup group, cudaStream_t stream, void* number);
  // Runs `make`, which blocks until all ranks have come, until the deadline or the job's end. It
  // writes a communicator; `aborts` ends those that wait if others do not come.
  absl::StatusOr<ncclComm_t> MakeWith(std::function<ncclResult_t(ncclComm_t*)> make,
                                      const std::function<void(ncclComm_t)>& aborts);
  // Notes what the making of the communicator has added to the GPU's memory in use, `before` it.
  absl::Status NoteMemory(Bytes before);
  absl::Status Launch(absl::Span<const CollectiveCall> calls, ncclComm_t communicator,
                      Operation& operation);
  ncclResult_t LaunchCall(const CollectiveCall& call, ncclComm_t communicator);
  ncclResult_t LaunchAllToAll(const CollectiveCall& call, ncclComm_t communicator);
  void Count(const CollectiveCall& call);
  void Look() override;
  // Ends the communicator of a group without operations under way.
  void Destroy();
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
  absl::Status Overdue(absl::string_view what) const;

  NcclGroup group_;
  const cudaStream_t stream_;
  void* const number_;
  int split_count_ = 0;
  std::atomic<bool> measures_busy_ = false;
  // The ranks' meeting; keeps what NCCL refers to.
  std::shared_ptr<Making> making_;

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
