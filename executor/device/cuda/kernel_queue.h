// What kernels need of whoever runs them: an order, scratch memory, matrix products, and
// somewhere to leave errors. Plain, so that sources for nvcc include little.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_KERNEL_QUEUE_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_KERNEL_QUEUE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "executor/device/kernels/layer_kernels.h"

namespace parplan::cuda {

// Of one device and thread. Errors stay: the first one is told by `Synchronize`.
class KernelQueue {
 public:
  virtual ~KernelQueue() = default;

  // A cudaStream_t.
  virtual void* stream() = 0;
  // Memory of the device for one operation; the next call gives the same. Null after an error.
  virtual void* Scratch(int64_t byte_count) = 0;
  // `tokens` on the device, for the operations up to the next call. Null after an error.
  virtual const int32_t* Upload(const int32_t* tokens, int64_t count) = 0;
  virtual void Multiply(ElementType type, const MatrixProduct& product) = 0;
  virtual absl::Status CopyFromHost(const void* host, void* device, int64_t byte_count) = 0;
  virtual absl::Status CopyToHost(const void* device, void* host, int64_t byte_count) = 0;
  virtual absl::Status Synchronize() = 0;

  // After a launch.
  virtual void CheckLaunch(const char* kernel) = 0;
  // From any thread.
  virtual void Fail(const absl::Status& status) = 0;
};

// Kernels over `queue`, which outlives them: fp32 and bf16; null for other types.
std::unique_ptr<LayerKernels> MakeDeviceKernels(ElementType type, KernelQueue& queue);

// A product of fp32 or bf16 by a kernel of our own: for shapes that the library has none for.
void LaunchSimpleProduct(ElementType type, const MatrixProduct& product, KernelQueue& queue);

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_KERNEL_QUEUE_H_
