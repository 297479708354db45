// The interface between kernels and the GPU's queue: a stream, scratch memory, matrix products, and
// errors. It includes little, since nvcc compiles its users. `CudaQueue` implements it, and so do
// tests without a GPU.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_KERNEL_QUEUE_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_KERNEL_QUEUE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "executor/device/cuda/attention_library.h"
#include "executor/device/kernels/layer_kernels.h"

namespace parplan::cuda {

// The queue of one device, used by its thread. It keeps the first error, which this and every later
// `Synchronize` and copy return. Failures of calls without a status show there alone.
class KernelQueue {
 public:
  virtual ~KernelQueue() = default;

  // A cudaStream_t.
  virtual void* stream() = 0;
  // Returns device memory for one operation; the next call returns the same, or larger memory in
  // its place, without its content. What it has replaced is freed with the queue. Null if it cannot
  // grow, after `Fail`.
  virtual void* Scratch(int64_t byte_count) = 0;
  // Copies `tokens`, which it reads before it returns, to the device, for the operations up to the
  // next call. Waits for the device only if several earlier uploads are still under way. Null if
  // that fails, after `Fail`.
  virtual const int32_t* Upload(const int32_t* tokens, int64_t count) = 0;
  // Starts a product of fp32 or bf16; with k = 0 sets c to zero, or leaves it if the product adds.
  // REQUIRES, unchecked: m and n are above 0.
  virtual void Multiply(ElementType type, const MatrixProduct& product) = 0;
  // Returns the library that computes attention of bf16 where it can, valid as long as the queue;
  // null without one. The first call may load it.
  virtual AttentionLibrary* attention_library() { return nullptr; }
  // Copy between host and device after all earlier work, and wait; return the first error so far.
  virtual absl::Status CopyFromHost(const void* host, void* device, int64_t byte_count) = 0;
  virtual absl::Status CopyToHost(const void* device, void* host, int64_t byte_count) = 0;
  // Waits for all earlier work and returns the first error so far.
  virtual absl::Status Synchronize() = 0;

  // Keeps the error of the launch before it, if there is one. Errors of the running kernel come
  // later, with `Synchronize`.
  virtual void CheckLaunch(const char* kernel) = 0;
  // Keeps a line of Device::Notes.
  virtual void Note(const char* line) { static_cast<void>(line); }
  // Keeps an error. Any thread may call it.
  virtual void Fail(const absl::Status& status) = 0;
};

// Makes kernels over `queue`, which outlives them, for fp32 and bf16; null for other types.
std::unique_ptr<LayerKernels> MakeDeviceKernels(ElementType type, KernelQueue& queue);

// Computes a product of fp32 or bf16 by a kernel of our own, for shapes without one in cuBLASLt.
// REQUIRES, unchecked: m and n are above 0.
void LaunchSimpleProduct(ElementType type, const MatrixProduct& product, KernelQueue& queue);

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_KERNEL_QUEUE_H_
