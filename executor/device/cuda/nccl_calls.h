// The calls of NCCL for the operations of a group, and its errors.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_NCCL_CALLS_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_NCCL_CALLS_H_

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "executor/device/comm/communicator.h"

namespace parplan::cuda {

// Returns the status of a call named `what`, with NCCL's message: OK for success, UNAVAILABLE for
// an error of another rank, else INTERNAL. `communicator` may be null.
absl::Status NcclStatus(ncclResult_t result, ncclComm_t communicator, absl::string_view what);

// Gives the calls to NCCL, which puts them into `stream`: several, and the messages of an
// all-to-all, as one group call. `size` is that of the communicator, and `number` one in the memory
// of the GPU, which a barrier all-reduces. REQUIRES, unchecked: there is one call at least, and
// each fits the group (`CheckCall`).
ncclResult_t LaunchCalls(absl::Span<const CollectiveCall> calls, int size, void* number,
                         ncclComm_t communicator, cudaStream_t stream);

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_NCCL_CALLS_H_
