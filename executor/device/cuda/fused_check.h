// Compares operations that are several in one with their parts, on the device that will run them.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_FUSED_CHECK_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_FUSED_CHECK_H_

#include "executor/device/cuda/kernel_queue.h"
#include "executor/device/kernels/layer_kernels.h"

namespace parplan::cuda {

// Runs `AddBiasAndGelu`, `AddResidual` and `AddResidualAndNorm` on small arrays in the queue's
// scratch memory, by `fused` and by `parts`, in packs and element by element, with biases and
// without. Returns whether all bits of the results are the same; false after an error, which the
// queue keeps. Waits for the device. REQUIRES, unchecked: both are kernels of one type over
// `queue`.
bool FusedIsSame(KernelQueue& queue, LayerKernels& parts, LayerKernels& fused);

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_FUSED_CHECK_H_
