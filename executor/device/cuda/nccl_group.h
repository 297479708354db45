// The making and the end of communicators of NCCL. The ranks of a group do both together, in calls
// that have no deadline: they wait for as long as another rank does not come. So each call is on a
// thread that is left behind if it lasts too long.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_NCCL_GROUP_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_NCCL_GROUP_H_

#include <nccl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "executor/device/comm/rank_context.h"
#include "executor/device/cuda/nccl_device.h"

namespace parplan::cuda {

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

// A call that makes a communicator. Shared with the thread of the call, which may be left behind,
// and kept as long as the communicator.
struct NcclMaking {
  explicit NcclMaking(std::string name) : label(std::move(name)) {
    config.blocking = 1;
    config.commName = label.c_str();
  }
  NcclMaking(const NcclMaking&) = delete;
  NcclMaking& operator=(const NcclMaking&) = delete;

  // NCCL keeps the pointer to the name.
  const std::string label;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  // Written by NCCL before it waits for others.
  ncclComm_t communicator = nullptr;
  // ncclInProgress until the call has returned.
  std::atomic<ncclResult_t> result = ncclInProgress;
};

// Returns the id of a group, which its rank 0 makes and publishes as `key`. Returns the errors of
// NcclStatus and of RankContext::Publish and Await, and INTERNAL if what was published is no id.
absl::StatusOr<ncclUniqueId> ShareId(RankContext& job, const std::string& key, int rank);

// Calls `make`, which fills `making` in and waits for the other ranks. Returns the communicator, or
// why there is none: NCCL's error (`NcclStatus`), or, before the call has returned, an error of
// `failure` or of RankContext::Health, or DEADLINE_EXCEEDED after the job's `operation_timeout`.
// Then `aborts` gets the call's communicator, null where NCCL has written none yet, to end it, and
// the call has 10 s to return.
absl::StatusOr<ncclComm_t> MakeCommunicator(const NcclGroup& group,
                                            const std::shared_ptr<NcclMaking>& making,
                                            std::function<ncclResult_t(NcclMaking&)> make,
                                            absl::FunctionRef<absl::Status()> failure,
                                            absl::FunctionRef<void(ncclComm_t)> aborts);

// Ends a communicator without operations under way, and waits for the other ranks as long as the
// job lets an operation last; then, or where the job has ended, it fails the device's queue.
void DestroyCommunicator(const NcclGroup& group, const std::shared_ptr<NcclMaking>& making,
                         ncclComm_t communicator);

// Returns DEADLINE_EXCEEDED: `what` of the group took longer than the job lets it.
absl::Status Overdue(const NcclGroup& group, absl::string_view what);

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_NCCL_GROUP_H_
