// In place of cudnn_attention.cc where cuDNN's frontend was not there to build with.

#include "executor/device/cuda/cudnn_attention.h"

namespace parplan::cuda {

int64_t CudnnVersion(std::string& reason) {
  reason = "built without cuDNN's frontend (PARPLAN_CUDNN_FRONTEND)";
  return 0;
}

std::unique_ptr<AttentionLibrary> MakeCudnnAttention(AttentionChoice, cudaStream_t,
                                                     std::string& reason) {
  CudnnVersion(reason);
  return nullptr;
}

}  // namespace parplan::cuda
