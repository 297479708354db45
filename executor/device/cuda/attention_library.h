// The interface of a library that computes attention in place of our own kernels. `CudaQueue` has
// one where cuDNN is used (cudnn_attention.cc). It includes little, since nvcc compiles its users.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_ATTENTION_LIBRARY_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_ATTENTION_LIBRARY_H_

#include <string>
#include <vector>

#include "executor/device/kernels/layer_kernels.h"

namespace parplan::cuda {

// Attention of bf16 on one stream, used by the thread of its queue. It never fails: what it cannot
// do is left to the caller's own kernels, and noted (`Notes`).
class AttentionLibrary {
 public:
  virtual ~AttentionLibrary() = default;

  // Returns whether the library computes attention of this shape, forward and backward; else
  // `reason` says why not, as a predicate. It computes none whose gradients are added. The first
  // call for a shape may take seconds.
  virtual bool Serves(const AttentionShape& shape, std::string& reason) = 0;
  // Start what `LayerKernels` has by these names. Return false if the caller must compute it; then
  // the results have no meaning yet. That happens for shapes that `Serves` takes too: where arrays
  // are not aligned to 16 bytes, or without memory for the library's workspace, after which it
  // leaves that shape to the caller for good. `adds_gradients` of the shape is ignored: gradients
  // are replaced, and have the rows of `gradients` instead of those of q, k and v.
  virtual bool Attention(const AttentionShape& shape, const void* q, const void* k, const void* v,
                         void* output, void* kept) = 0;
  virtual bool AttentionBackward(const AttentionShape& shape, const AttentionShape& gradients,
                                 const void* q, const void* k, const void* v, const void* output,
                                 const void* kept, const void* output_gradient, void* dq, void* dk,
                                 void* dv) = 0;
  // Says which library computes attention, and which shapes it left to our kernels and why, up to
  // some dozens of them.
  virtual std::vector<std::string> Notes() const = 0;
};

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_ATTENTION_LIBRARY_H_
