// Attention through cuDNN, which is loaded when it is first asked for. `CudaQueue` and the plugin's
// list of libraries use it.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_CUDNN_ATTENTION_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_CUDNN_ATTENTION_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "executor/device/backend/load_backend.h"
#include "executor/device/cuda/attention_library.h"

namespace parplan::cuda {

// Returns the version of cuDNN 9 as it counts them, 91900 for 9.19.0, and empties `reason`; 0 with
// the reason if libcudnn.so.9 cannot be loaded or the plugin was built without its frontend. The
// library stays loaded. Any thread may call it, but the first call sets variables of the frontend
// (CUDNN_FRONTEND_...) in the process's environment, which no other thread may read meanwhile.
int64_t CudnnVersion(std::string& reason);

// Makes attention through cuDNN on `stream` of the thread's current device. Null with the reason in
// `reason` if cuDNN cannot be loaded or used, or `choice` is kOwn. `stream` outlives it. kAutomatic
// takes the choice that the variable PARPLAN_ATTENTION names: `own`, `cudnn` or `cudnn-fast`;
// without it or for any other name kCudnn.
std::unique_ptr<AttentionLibrary> MakeCudnnAttention(AttentionChoice choice, cudaStream_t stream,
                                                     std::string& reason);

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_CUDNN_ATTENTION_H_
