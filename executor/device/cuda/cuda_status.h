// Converts results of CUDA's libraries to statuses, for all sources of the plugin that call CUDA
// except cudnn_attention.cc.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_STATUS_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_STATUS_H_

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace parplan::cuda {

// Return the status of a call of CUDA's runtime and of cuBLAS: OK, RESOURCE_EXHAUSTED if CUDA's
// runtime has no memory, or INTERNAL for every other error, which includes cuBLAS without memory.
// The message is `what`, the name of the call such as `cudaMalloc of 4096 bytes`, and the library's
// name of the error.
inline absl::Status CudaStatus(cudaError_t error, absl::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  const absl::StatusCode code = error == cudaErrorMemoryAllocation
                                    ? absl::StatusCode::kResourceExhausted
                                    : absl::StatusCode::kInternal;
  return absl::Status(
      code, absl::StrCat(what, ": ", cudaGetErrorName(error), ", ", cudaGetErrorString(error)));
}

inline absl::Status CublasStatus(cublasStatus_t status, absl::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, ": ", cublasLtGetStatusName(status), ", ",
                                          cublasLtGetStatusString(status)));
}

}  // namespace parplan::cuda

// Makes a call of CUDA's runtime. If it fails, returns its status, whose message has the text of
// the call, from the enclosing function.
#define PARPLAN_RETURN_IF_CUDA_ERROR(call) \
  PARPLAN_RETURN_IF_ERROR(::parplan::cuda::CudaStatus(call, #call))

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_CUDA_STATUS_H_
