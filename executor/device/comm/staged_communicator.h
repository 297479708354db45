// Collectives between buffers in the memory of a device, through host memory: buffers are copied to
// the host, exchanged there, and copied back. Slow, but it needs nothing from the device, so that
// several ranks can be tested on one GPU, which NCCL refuses.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_STAGED_COMMUNICATOR_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_STAGED_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "executor/device/comm/communicator.h"

namespace parplan {

// Copies between a device and the host. Each begins after all earlier work of the device and has
// ended when the call returns.
class StagingCopies {
 public:
  virtual ~StagingCopies() = default;
  // Copy `byte_count` bytes. Return the first error of the device's earlier work or of the copy.
  virtual absl::Status ToHost(const void* device, void* host, int64_t byte_count) = 0;
  virtual absl::Status FromHost(const void* host, void* device, int64_t byte_count) = 0;
};

// Made by `CudaDevice` for ranks that share a GPU, for a rank that is alone where there is no NCCL,
// and where it is asked for (GroupTransport).
class StagedCommunicator : public Communicator {
 public:
  // `inner` exchanges the copies in host memory. `copies` outlives this and its pending work.
  StagedCommunicator(std::unique_ptr<Communicator> inner, StagingCopies& copies);

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& name() const override { return inner_->name(); }
  // Reads `send` before it returns; `receive` is written by `Wait` alone, and not if that fails.
  // Work that is destroyed without `Wait` waits for `inner` and leaves `receive` as it was. Returns
  // the errors of CheckCall, of `inner` and of the copies.
  absl::StatusOr<std::unique_ptr<PendingWork>> Start(const CollectiveCall& call) override;
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override;
  void Abort(absl::string_view reason) override { inner_->Abort(reason); }
  CommunicatorStats Stats() const override { return inner_->Stats(); }

 private:
  class Work;

  const std::unique_ptr<Communicator> inner_;
  StagingCopies& copies_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_STAGED_COMMUNICATOR_H_
